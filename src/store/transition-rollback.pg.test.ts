/** No state without its event: for every type of the closed list the insert of the event is made to fail, and the state stays. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { approvalMachine, commandMachine } from '#kernel/machines/index'
import { aCommand, aWorkspace, by, events, someApprovals, storedApproval, storedCommand } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { type Db, openDb } from './db.ts'
import { appendEvents, domainEventLog } from './events.ts'
import { transition } from './transition.ts'

/** Every name that a room or a machine of this log declares, as pinned; the other families have logs of their own. */
const pinned = JSON.parse(
  readFileSync(new URL('../../test/tidy/pins/event-names.json', import.meta.url), 'utf8'),
) as Record<string, string>
const isOurs = (source: string) => !/^(machine|room):(mission|colony|flow|scheduler)/.test(source)
const types = [
  ...new Set([
    ...events.types,
    ...Object.entries(pinned).flatMap(([type, sources]) => (sources.split(', ').some(isOurs) ? [type] : [])),
  ]),
]
const log = domainEventLog(Object.fromEntries(types.map((type) => [type, 'event'])))

describe('an event that cannot be written', () => {
  let opened: TestDb
  /** The owner of the tables, who may plant a constraint. */
  let owner: Db
  let workspaceId: string

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    owner = openDb({ url: opened.url, poolMax: 1 })
    workspaceId = await aWorkspace(opened.db)
  })
  after(async () => {
    await owner.close()
    await opened.close()
  })

  /** While `work` runs, no event of this type can be inserted. */
  async function without(type: string, work: () => Promise<void>): Promise<void> {
    await owner.query(
      `alter table concord.domain_events add constraint planted_ck check (event_type <> '${type}') not valid`,
    )
    try {
      await work()
    } finally {
      await owner.query('alter table concord.domain_events drop constraint planted_ck')
    }
  }

  async function everything(): Promise<unknown> {
    const [counts] = await opened.db.query(
      `select (select count(*)::int from concord.domain_events) as events,
              (select md5(string_agg(command_id::text || status || xmin::text, ',' order by command_id)) from concord.commands) as commands,
              (select md5(string_agg(approval_id::text || status || xmin::text, ',' order by approval_id)) from concord.approvals) as approvals`,
    )
    return counts
  }

  const planted = { code: '23514', constraint: 'planted_ck' }

  for (const type of types) {
    const commandMoves = commandMachine.moves.filter(({ emits }) => emits.some((emitted) => emitted === type))
    const approvalMoves = approvalMachine.moves.filter(({ emits }) => emits.some((emitted) => emitted === type))

    test(`[EVT-11] ${type}: no change survives without it, of ${commandMoves.length + approvalMoves.length} moves and a write beside it`, async () => {
      const commands = await Promise.all(commandMoves.map(({ from }) => aCommand(opened.db, workspaceId, from)))
      const free = await aCommand(opened.db, workspaceId)
      const approvals = await someApprovals(opened.db, free, approvalMoves.length)
      await without(type, async () => {
        const before = await everything()
        for (const [index, { to, by: actors }] of commandMoves.entries()) {
          const row = { ...commands[index], cancellation_requested: true }
          await assert.rejects(transition(opened.db, storedCommand, row, to, by(actors[0] ?? 'system')), planted)
        }
        for (const [index, { to, by: actors }] of approvalMoves.entries()) {
          const decided = storedApproval.machine.stamps?.some(({ on }) => on.includes(to))
            ? { set: { decided_by: 'user:9' } }
            : {}
          await assert.rejects(
            transition(opened.db, storedApproval, approvals[index] ?? {}, to, {
              ...by(actors[0] ?? 'system'),
              ...decided,
            }),
            planted,
          )
        }
        await assert.rejects(
          opened.db.transaction(async (tx) => {
            await tx.query(`update concord.commands set error = 'changed' where command_id = $1`, [free.command_id])
            await appendEvents(tx, log, [
              {
                ...by('system'),
                eventId: by('system').newId(),
                type,
                payload: {},
                links: { workspace_id: workspaceId, command_id: free.command_id },
              },
            ])
          }),
          planted,
        )
        assert.deepEqual(await everything(), before)
      })
    })
  }
})
