/** Lists, histories, counts and facts read a few pages of the database, however many commands a workspace has. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { findOldestPending } from '#domains/approvals'
import { type Db, readFeed } from '#store'
import { countBlocks } from '#test/blocks'
import { openTestRoom, type TestRoom } from '#test/commands'
import { growWorkspace, openPatient } from '#test/large-workspace'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { openAlertSweep } from './alerts.ts'
import { compensateCommand } from './change-command.ts'
import type { StoredCommand } from './command-table.ts'
import { countOpen } from './count-commands.ts'
import { actingFor } from './deps.ts'
import { gatherFacts } from './facts.ts'
import { listAudit, listCommandEvents, listCommands, scanCommands } from './read-commands.ts'

const COMMANDS = 20_000
const BLOCKS_MAX = 200
const DAY_MS = 24 * 3_600_000

describe('reads of a large workspace', () => {
  let room: TestRoom
  let workspaceId: string
  let sample: StoredCommand
  let echoType: string

  before(async () => {
    room = await openTestRoom()
    workspaceId = room.tenant.workspace.id
    const echoed = await room.submit({ subject: 's' }, { taskName: 'Echo' })
    const denied = await room.submit({ subject: 's', decide: 'deny' })
    const waiting = await room.submit({ subject: 's', decide: 'require_approval' })
    const booked = await room.submit({ subject: 's' }, { taskName: 'Booking' })
    for (const id of [denied, waiting, booked]) await room.settle(id)
    const owner = openPatient(room.db.config.url)
    await growWorkspace(owner, {
      workspaceId,
      // In turn, so that the commands of a task, of a state and of both lie far apart.
      templates: [
        { commandId: echoed, weight: 590 },
        { commandId: denied, weight: 400 },
        { commandId: waiting, weight: 9 },
        { commandId: await drifted(), weight: 1 },
      ],
      copies: COMMANDS,
      spanMs: 14 * DAY_MS,
      until: room.clock.now(),
    })
    await owner.query(`update concord.commands set requested_by = 'user:rare' where task_name = 'Booking'`)
    await owner.close()
    // A transaction of another database of this server, begun before the copies, holds the feed back.
    const isReadable = async () => accepted(await readFeed(room.db, { workspaceId, limit: 100 })).isFull
    await until(isReadable, 'the events in the feed')
    const [row] = await room.rows<StoredCommand>(
      'select * from concord.commands order by command_id offset 10000 limit 1',
    )
    assert.ok(row)
    sample = row
    const [echo] = await room.rows<StoredCommand>(`select * from concord.commands where task_name = 'Echo' limit 1`)
    echoType = echo?.command_type ?? ''
  })
  after(() => room.close())

  /** A command whose compensation failed: its last write has audit events of two types. */
  async function drifted(): Promise<string> {
    const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] })
    room.provider.modes.push('ok', 'refuse')
    assert.equal(await room.settle(id), 'failed')
    const operator = actingFor(room.tenant.people.admin.principal, TRACE)
    accepted(await compensateCommand(room.world, operator, { workspaceId, commandId: id }))
    room.provider.modes.push('refuse')
    assert.equal(await room.settle(id), 'failed')
    return id
  }

  const page = { beforeId: null, limit: 50 }
  const audit = { before: null, limit: 50 }
  const hour = () => ({
    createdAfter: sample.created_at,
    createdBefore: new Date(sample.created_at.getTime() + DAY_MS / 24),
  })
  const scan = async (db: Db, filter: Partial<Parameters<typeof scanCommands>[2]>) =>
    (await scanCommands(db, workspaceId, { ...page, ...filter })).rows
  type Read = (db: Db) => Promise<unknown>
  /** Each read with the number of rows that it must return. */
  const reads: Readonly<Record<string, readonly [Read, number]>> = {
    'all commands': [(db) => listCommands(db, workspaceId, page), 50],
    'commands by a rare status': [
      (db) => listCommands(db, workspaceId, { ...page, status: 'waiting_for_approval' }),
      50,
    ],
    'commands by a status that no command has': [
      (db) => listCommands(db, workspaceId, { ...page, status: 'blocked' }),
      0,
    ],
    'commands by a rare task': [(db) => listCommands(db, workspaceId, { ...page, taskName: 'Booking' }), 1],
    'commands by a frequent task': [(db) => listCommands(db, workspaceId, { ...page, taskName: 'Work' }), 50],
    'commands by a task that does not exist': [
      (db) => listCommands(db, workspaceId, { ...page, taskName: 'Nobody' }),
      0,
    ],
    'commands by a frequent task in a status that only others have': [
      (db) => listCommands(db, workspaceId, { ...page, taskName: 'Echo', status: 'failed' }),
      0,
    ],
    'commands by a frequent task in a rare status': [
      (db) => listCommands(db, workspaceId, { ...page, taskName: 'Work', status: 'waiting_for_approval' }),
      50,
    ],
    'commands of a rare requester': [(db) => listCommands(db, workspaceId, { ...page, requestedBy: 'user:rare' }), 1],
    'commands of a frequent requester in a status that no command has': [
      (db) => listCommands(db, workspaceId, { ...page, requestedBy: sample.requested_by, status: 'expired' }),
      0,
    ],
    'a page in the middle': [(db) => listCommands(db, workspaceId, { ...page, beforeId: sample.command_id }), 50],
    'a page of a task in the middle': [
      (db) => listCommands(db, workspaceId, { ...page, taskName: 'Work', beforeId: sample.command_id }),
      50,
    ],
    'commands of an hour': [(db) => listCommands(db, workspaceId, { ...page, ...hour() }), 50],
    'commands of a rare requester in an hour': [
      (db) => listCommands(db, workspaceId, { ...page, ...hour(), requestedBy: 'user:rare' }),
      0,
    ],
    'commands of a task in an hour': [
      (db) => listCommands(db, workspaceId, { ...page, ...hour(), taskName: 'Work' }),
      25,
    ],
    'commands by an ingress that none has': [(db) => scan(db, { ingress: 'webhook' }), 0],
    'commands of a task by ingress': [(db) => scan(db, { ingress: 'user_request', taskName: 'Work' }), 50],
    'commands of a requester by trace': [
      (db) => scan(db, { traceId: 'trace_none', requestedBy: sample.requested_by }),
      0,
    ],
    'commands of a trace in an hour': [(db) => scan(db, { traceId: sample.context.trace_id, ...hour() }), 50],
    'commands without housekeeping': [(db) => scan(db, { withoutHousekeeping: true }), 50],
    'events of a command': [
      async (db) => {
        const events = await listCommandEvents(db, workspaceId, sample.command_id, { afterSeq: null, limit: 50 })
        return events.slice(0, 1)
      },
      1,
    ],
    'the audit': [(db) => listAudit(db, workspaceId, audit), 50],
    'the audit of a command by type': [
      (db) => listAudit(db, workspaceId, { ...audit, commandId: sample.command_id, eventType: 'command_created' }),
      1,
    ],
    'the audit by a frequent type': [
      (db) => listAudit(db, workspaceId, { ...audit, eventType: 'policy_evaluated' }),
      50,
    ],
    'the audit by a rare type': [(db) => listAudit(db, workspaceId, { ...audit, eventType: 'approval_requested' }), 50],
    'the audit by the second type of a write': [
      (db) => listAudit(db, workspaceId, { ...audit, eventType: 'compensation_drift' }),
      21,
    ],
    'the audit by a type that does not exist': [
      (db) => listAudit(db, workspaceId, { ...audit, eventType: 'nothing' }),
      0,
    ],
    'the audit by a type that is no audit type': [
      (db) => listAudit(db, workspaceId, { ...audit, eventType: 'status_changed' }),
      0,
    ],
    'a page of the feed': [async (db) => accepted(await readFeed(db, { workspaceId, limit: 100 })).events, 100],
  }
  for (const [what, [read, count]] of Object.entries(reads))
    test(`[M8] ${what}: at most ${BLOCKS_MAX} blocks`, async () => {
      let rows: unknown
      const blocks = await countBlocks(room.db, async (db) => void (rows = await read(db)))
      assert.equal((rows as readonly unknown[]).length, count)
      assert.ok(blocks <= BLOCKS_MAX, `${blocks} blocks`)
    })

  test('[M8] pages of what no index finds continue to the end of the list, with every match once', async () => {
    const matches = await room.rows<{ command_id: string }>(
      `select command_id from concord.commands where requested_by <> 'user:rare' order by command_id desc`,
    )
    const wanted = [matches.at(-1), matches[1_500], matches[3]].flatMap((row) => row?.command_id ?? [])
    const owner = openPatient(room.db.config.url)
    await owner.query(`update concord.commands set ingress = 'webhook' where command_id = any($1::uuid[])`, [wanted])
    await owner.close()
    const found: string[] = []
    let pages = 0
    for (let beforeId: string | null = null; ; ) {
      const asked = { ...page, limit: 2, beforeId, ingress: 'webhook' }
      const { rows, scannedTo }: Awaited<ReturnType<typeof scanCommands>> = await scanCommands(
        room.db,
        workspaceId,
        asked,
      )
      found.push(...rows.map(({ command_id }) => command_id))
      const last = rows.at(-1)
      beforeId = last?.has_next ? last.command_id : scannedTo
      pages += 1
      if (beforeId === null) break
    }
    assert.deepEqual(found, wanted.toReversed())
    assert.ok(pages > 20, String(pages))
  })

  test(`the gauges of the metrics: at most ${BLOCKS_MAX} blocks, and a count stops at its limit`, async () => {
    let waiting = 0
    const blocks = await countBlocks(room.db, async (db) => {
      waiting = (await countOpen(db, 100)).commands['waiting_for_approval'] ?? 0
      await findOldestPending(db)
    })
    assert.equal(waiting, 100)
    assert.ok(blocks <= BLOCKS_MAX, `${blocks} blocks`)
  })

  test(`the fact commands_last_hour: at most ${BLOCKS_MAX} blocks`, async () => {
    let facts: Record<string, unknown> = {}
    const blocks = await countBlocks(room.db, async (db) => {
      facts = await gatherFacts({ ...room.world, db }, { ...sample, command_type: echoType }, ['commands_last_hour'])
    })
    assert.ok(Number(facts['commands_last_hour']) > 20)
    assert.ok(blocks <= BLOCKS_MAX, `${blocks} blocks`)
  })

  test('[M8] pages by type are the pages of the whole audit', async () => {
    const all = await listAudit(room.db, workspaceId, { ...audit, limit: 100_000 })
    const types = new Set(all.map(({ event_type }) => event_type))
    assert.ok(types.size > 6, [...types].join())
    for (const eventType of types) {
      const expected = all.filter(({ event_type }) => event_type === eventType).map(({ event_id }) => event_id)
      const found = await listAudit(room.db, workspaceId, { ...audit, eventType, limit: 100_000 })
      // Both end at the size of a page, so the whole audit has fewer events of the type.
      assert.deepEqual(
        found.slice(0, expected.length).map(({ event_id }) => event_id),
        expected,
      )
    }
  })

  test(`[M8] the sweep for incidents in a database without statistics: at most ${BLOCKS_MAX} blocks`, async () => {
    const owner = openPatient(room.db.config.url)
    const tables = `('concord.commands'::regclass, 'concord.journal'::regclass)`
    await owner.query(`delete from pg_statistic where starelid in ${tables}`)
    await owner.query(`update pg_class set reltuples = -1, relpages = 0 where oid in ${tables}`)
    await owner.close()
    const blocks = await countBlocks(room.db, (db) => openAlertSweep({ ...room.world, db, channels: [] })())
    assert.ok(blocks <= BLOCKS_MAX, `${blocks} blocks`)
  })
})
