/** Lists, histories and facts read a few pages of the database, however many commands a workspace has. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openDb, type Db, readFeed, type Tx } from '#store'
import { openTestRoom, type TestRoom } from '#test/commands'
import { gatherFacts } from './facts.ts'
import { listAudit, listCommandEvents, listCommands } from './read-commands.ts'
import type { StoredCommand } from './command-table.ts'

const COMMANDS = 20_000
const BLOCKS_MAX = 200

describe('reads of a large workspace', () => {
  let room: TestRoom
  let workspaceId: string
  let sample: StoredCommand

  before(async () => {
    room = await openTestRoom()
    workspaceId = room.tenant.workspace.id
    const id = await room.submit({ subject: 's' }, { taskName: 'Echo' })
    const owner = openDb({ url: room.db.config.url, poolMax: 1 })
    // Copies of one real command: rare and frequent states, tasks and requesters, over many hours.
    await owner.query(
      `insert into concord.commands (command_id, workspace_id, command_type, task_name, requested_by, ingress, payload, payload_hash, context,
         status, created_at, updated_at, completed_at, run_after)
       select (left(lpad(to_hex(1777626000000 + n * 5000), 12, '0'), 8) || '-' || right(lpad(to_hex(1777626000000 + n * 5000), 12, '0'), 4) ||
           '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
         c.workspace_id, c.command_type, case when n % 5000 = 0 then 'Rare' else c.task_name end,
         case when n % 4000 = 0 then 'user:rare' else c.requested_by end, c.ingress, c.payload, c.payload_hash, c.context,
         case when n % 3000 = 0 then 'failed' else 'succeeded' end, to_timestamp(1777626000 + n * 5), now(), now(), null
       from concord.commands as c cross join generate_series(1, $2::int) as n where c.command_id = $1`,
      [id, COMMANDS],
    )
    await owner.query(
      `insert into concord.journal (entry_id, workspace_id, command_id, trace_id, created_at, events)
       select gen_random_uuid(), c.workspace_id, c.command_id, j.trace_id, c.created_at, j.events
       from concord.commands as c cross join (select * from concord.journal where command_id = $1 limit 1) as j where c.command_id <> $1`,
      [id],
    )
    await owner.query('vacuum analyze concord.commands, concord.journal')
    await owner.close()
    const [row] = await room.rows<StoredCommand>(
      'select * from concord.commands order by command_id offset 10000 limit 1',
    )
    assert.ok(row)
    sample = row
  })
  after(() => room.close())

  /** Runs the read with every statement explained, and returns how many blocks the statements touched. */
  async function blocksOf(read: (db: Db) => Promise<unknown>): Promise<number> {
    let blocks = 0
    const explain = async (sql: Pick<Tx, 'query'>, text: string, values?: readonly unknown[]) => {
      const rows = await sql.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
        `explain (analyze, buffers, format json) ${text}`,
        values,
      )
      const plan = rows[0]?.['QUERY PLAN'][0].Plan
      blocks += (plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0)
    }
    const watched = <S extends Pick<Tx, 'query' | 'run'>>(sql: S): S =>
      Object.assign(Object.create(sql) as S, {
        async query(text: string, values?: readonly unknown[]) {
          if (/^(select|with)\b/.test(text) && !text.includes('set_config')) await explain(sql, text, values)
          return sql.query(text, values)
        },
        async run(statement: { readonly text: string }, values?: readonly unknown[]) {
          await explain(sql, statement.text, values)
          return sql.run(statement as never, values)
        },
      })
    const db = Object.assign(watched(room.db), {
      transaction: (work: (tx: Tx) => Promise<unknown>, opening?: string) =>
        room.db.transaction((tx) => work(watched(tx)), opening),
    })
    await read(db)
    assert.ok(blocks > 0)
    return blocks
  }

  const page = { beforeId: null, limit: 50 }
  const reads: Readonly<Record<string, (db: Db) => Promise<unknown>>> = {
    'all commands': (db) => listCommands(db, workspaceId, page),
    'commands by a rare status': (db) => listCommands(db, workspaceId, { ...page, status: 'failed' }),
    'commands by a status that no command has': (db) => listCommands(db, workspaceId, { ...page, status: 'blocked' }),
    'commands by a rare task': (db) => listCommands(db, workspaceId, { ...page, taskName: 'Rare' }),
    'commands of a rare requester': (db) => listCommands(db, workspaceId, { ...page, requestedBy: 'user:rare' }),
    'a page in the middle': (db) => listCommands(db, workspaceId, { ...page, beforeId: sample.command_id }),
    'events of a command': (db) => listCommandEvents(db, workspaceId, sample.command_id, { afterSeq: null, limit: 50 }),
    'the audit': (db) => listAudit(db, workspaceId, { before: null, limit: 50 }),
    'the audit of a command': (db) =>
      listAudit(db, workspaceId, { commandId: sample.command_id, before: null, limit: 50 }),
    'a page of the feed': (db) => readFeed(db, { workspaceId, limit: 100 }),
    'the fact commands_last_hour': (db) =>
      gatherFacts({ ...room.world, db, now: () => new Date((1_777_626_000 + COMMANDS * 5) * 1_000) }, sample, [
        'commands_last_hour',
      ]),
  }
  for (const [what, read] of Object.entries(reads))
    test(`${what}: at most ${BLOCKS_MAX} blocks`, async () => {
      const blocks = await blocksOf(read)
      assert.ok(blocks <= BLOCKS_MAX, `${blocks} blocks`)
    })
})
