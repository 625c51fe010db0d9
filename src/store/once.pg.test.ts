/** One key, one row: twenty callers, other content, no key at all, and the moment in which the winner is not yet visible. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aWorkspace, by, events, newId } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { until } from '#test/until'
import type { EventDraft } from './events.ts'
import { insertOnce, onceTable, openInsertLane } from './once.ts'
import type { RowType } from './transition.ts'
import type { Db } from './db.ts'
import type pg from 'pg'

/**
 * A database whose dedicated connections fail on demand: they break after a commit and before its answer, or the server refuses a
 * statement.
 */
type FlakyDb = {
  readonly db: Db
  /** Commits the next statement whose name starts with this, then breaks the connection before the answer. */
  breakAfter(statementPrefix: string): void
  /** Answers the next statements whose name starts with this with the given SQLSTATE, the given number of times. */
  refuse(statementPrefix: string, sqlState: string, times?: number): void
  readonly broken: number
  readonly refused: number
}

function flakyDb(real: Db): FlakyDb {
  let armed: string | undefined
  let broken = 0
  let refusing = { prefix: '', sqlState: '', times: 0 }
  let refused = 0
  async function connect(applicationName?: string): Promise<pg.Client> {
    const client = await real.connect(applicationName)
    const query = client.query.bind(client) as (...values: unknown[]) => Promise<unknown>
    // The overloads of the driver do not matter here: the arguments are passed on unchanged.
    client.query = (async (...values: unknown[]) => {
      const name = (values[0] as { name?: string }).name
      if (refusing.times > 0 && name?.startsWith(refusing.prefix) === true) {
        refusing.times -= 1
        refused += 1
        return query(`do $$ begin raise sqlstate '${refusing.sqlState}'; end $$`)
      }
      const answer = await query(...values)
      if (armed === undefined || name?.startsWith(armed) !== true) return answer
      armed = undefined
      broken += 1
      await client.end()
      throw new Error('Connection terminated unexpectedly')
    }) as typeof client.query
    return client
  }
  return {
    db: Object.assign(Object.create(real) as Db, { connect }),
    breakAfter(statementPrefix) {
      armed = statementPrefix
    },
    refuse(prefix, sqlState, times = 1) {
      refusing = { prefix, sqlState, times }
    },
    get refused() {
      return refused
    },
    get broken() {
      return broken
    },
  }
}

const commands = onceTable({
  table: 'concord.commands',
  id: 'command_id',
  columns: {
    command_id: 'uuid',
    command_type: 'text',
    requested_by: 'text',
    ingress: 'text',
    payload: 'jsonb',
    context: 'jsonb',
    status: 'text',
    workspace_id: 'uuid',
    payload_hash: 'text',
    idempotency_key: 'text',
    request_fingerprint: 'text',
  },
  key: ['workspace_id', 'idempotency_key'],
  content: ['request_fingerprint'],
  returning: ['command_id', 'status', 'payload'],
  log: { log: events, links: { workspace_id: 'workspace_id', command_id: 'command_id' } },
  row: {} as RowType<{ command_id: string; status: string; payload: unknown }>,
})

describe('insertOnce', () => {
  let opened: TestDb
  let workspaceId: string

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 20 })
    workspaceId = await aWorkspace(opened.db)
  })
  after(() => opened.close())

  const aRow = (
    key: string | null,
    fingerprint: string | null = key === null ? null : 'f',
    workspace = workspaceId,
  ) => ({
    command_id: newId(),
    command_type: 'test.run',
    requested_by: 'user:1',
    ingress: 'user_request',
    payload: { list: [1] },
    context: {},
    status: 'created',
    workspace_id: workspace,
    payload_hash: 'h',
    idempotency_key: key,
    request_fingerprint: fingerprint,
  })
  const created = (): EventDraft[] => [{ ...by('user'), eventId: newId(), type: 'command_created', payload: {} }]

  async function counted(key: string): Promise<{ commands: number; events: number } | undefined> {
    const [row] = await opened.db.query<{ commands: number; events: number }>(
      `select count(distinct c.command_id)::int as commands, count(e.event_id)::int as events
       from concord.commands c left join concord.domain_events e using (command_id) where c.idempotency_key = $1`,
      [key],
    )
    return row
  }

  test('a known key returns the existing row, and adds neither a row nor an event', async () => {
    const first = await insertOnce(opened.db, commands, aRow('known'), created())
    const again = await insertOnce(opened.db, commands, aRow('known'), created())
    assert.ok(first.ok && again.ok)
    assert.deepEqual([first.value.inserted, again.value.inserted], [true, false])
    assert.deepEqual(again.value.row, first.value.row)
    assert.deepEqual(first.value.row.payload, { list: [1] })
    assert.deepEqual(await counted('known'), { commands: 1, events: 1 })
  })

  test('twenty concurrent callers with one key: one row, one event, twenty equal answers', async () => {
    for (let round = 0; round < 20; round++) {
      const key = `parallel-${round}`
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => insertOnce(opened.db, commands, aRow(key), created())),
      )
      const values = answers.map((answer) => (answer.ok ? answer.value : assert.fail(answer.reason)))
      assert.equal(new Set(values.map(({ row }) => row.command_id)).size, 1)
      assert.equal(values.filter(({ inserted }) => inserted).length, 1)
      assert.deepEqual(await counted(key), { commands: 1, events: 1 })
    }
  })

  test('the same key with another request is refused, and the refusal names the first row', async () => {
    const first = await insertOnce(opened.db, commands, aRow('reused', 'one'), created())
    assert.ok(first.ok)
    const other = await insertOnce(opened.db, commands, aRow('reused', 'two'), created())
    assert.equal(other.ok ? 'accepted' : other.code, 'key_reused')
    assert.equal(other.ok ? undefined : other.facts?.['first'], first.value.row.command_id)
    assert.deepEqual(await counted('reused'), { commands: 1, events: 1 })
  })

  test('[CMD-05] any number of rows without a key are all new', async () => {
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => insertOnce(opened.db, commands, aRow(null), created())),
    )
    assert.equal(answers.filter((answer) => answer.ok && answer.value.inserted).length, 30)
  })

  test('the key of one workspace is free in another', async () => {
    const other = await aWorkspace(opened.db)
    const answers = [
      await insertOnce(opened.db, commands, aRow('both')),
      await insertOnce(opened.db, commands, aRow('both', 'x', other)),
    ]
    assert.ok(answers.every((answer) => answer.ok && answer.value.inserted))
  })

  test('a winner that commits after our statement began is found by the second attempt', async () => {
    const row = aRow('gap')
    const [inserted, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const winner = opened.db.transaction(async (tx) => {
      const answer = await insertOnce(tx, commands, row)
      inserted.resolve()
      await held.promise
      return answer
    })
    await inserted.promise
    const loser = insertOnce(opened.db, commands, aRow('gap'))
    // The loser waits for the winner's row lock inside its one statement, whose snapshot is older than the commit.
    await until(async () => {
      const waiting = await opened.db.query(
        `select 1 from pg_locks join pg_stat_activity using (pid) where datname = current_database() and not granted`,
      )
      return waiting.length === 1
    })
    held.resolve()
    const [first, second] = await Promise.all([winner, loser])
    assert.ok(first.ok && second.ok)
    assert.deepEqual([first.value.inserted, second.value.inserted], [true, false])
    assert.equal(second.value.row.command_id, row.command_id)
  })

  test('a column that the table does not list is a fault', async () => {
    await assert.rejects(insertOnce(opened.db, commands, { ...aRow(null), plan: {} }), { code: 'store.column.unknown' })
  })

  describe('through a lane', () => {
    test('hundreds of rows, some keys used by twenty callers at once: one row and one event per key', async (t) => {
      const lane = openInsertLane(opened.db, commands)
      t.after(() => lane.close())
      const keys = Array.from({ length: 30 }, (_, index) => `lane-${index}`)
      const calls = keys.flatMap((key, index) => Array.from({ length: index % 3 === 0 ? 20 : 1 }, () => key))
      const answers = await Promise.all(calls.map((key) => lane.insert(aRow(key), created())))
      const inserted = answers.filter((answer) => answer.ok && answer.value.inserted)
      assert.equal(inserted.length, keys.length)
      for (const key of keys) assert.deepEqual(await counted(key), { commands: 1, events: 1 })
      const reused = await lane.insert(aRow('lane-1', 'other'))
      assert.equal(reused.ok ? 'accepted' : reused.code, 'key_reused')
    })

    test('a row that the database refuses fails alone', async (t) => {
      const lane = openInsertLane(opened.db, commands)
      t.after(() => lane.close())
      const rows = Array.from({ length: 30 }, (_, index) => ({
        ...aRow(null),
        status: index === 11 ? 'made_up' : 'created',
      }))
      const answers = await Promise.allSettled(rows.map((row) => lane.insert(row, created())))
      const refused = answers.flatMap((answer, index) =>
        answer.status === 'rejected' ? [[index, answer.reason.constraint]] : [],
      )
      assert.deepEqual(refused, [[11, 'command_status_ck']])
    })

    test('a taken key whose row cannot be read does not affect the inserted rows', async (t) => {
      const flaky = flakyDb(opened.db)
      const lane = openInsertLane(flaky.db, commands)
      t.after(() => lane.close())
      await insertOnce(opened.db, commands, aRow('taken-and-hidden'), created())
      const rows = [aRow(null), aRow('taken-and-hidden'), aRow('fresh-beside-it'), aRow(null)]
      flaky.refuse('once_', '57014')
      const answers = await Promise.allSettled(rows.map((row) => lane.insert(row, created())))
      assert.equal(flaky.refused, 1)
      assert.deepEqual(
        answers.map((answer) =>
          answer.status === 'rejected' ? answer.reason.code : answer.value.ok && answer.value.value.inserted,
        ),
        [true, '57014', true, true],
      )
    })

    for (const [size, key] of [
      [1, null],
      [1, 'broken-one'],
      [25, null],
    ] as const) {
      test(`a batch of ${size} ${key === null ? 'without keys' : 'with a key'} that was committed before its connection broke exists once`, async (t) => {
        const flaky = flakyDb(opened.db)
        const lane = openInsertLane(flaky.db, commands)
        t.after(() => lane.close())
        const rows = Array.from({ length: size }, () => aRow(key))
        flaky.breakAfter(size === 1 ? 'once_' : 'insert_all_')
        const answers = await Promise.all(rows.map((row) => lane.insert(row, created())))
        assert.equal(flaky.broken, 1)
        assert.equal(answers.filter((answer) => answer.ok && answer.value.inserted).length, size)
        const [row] = await opened.db.query<{ commands: number; events: number }>(
          `select count(distinct c.command_id)::int as commands, count(e.event_id)::int as events
           from concord.commands c left join concord.domain_events e using (command_id) where c.command_id = any($1::uuid[])`,
          [rows.map(({ command_id }) => command_id)],
        )
        assert.deepEqual(row, { commands: size, events: size })
      })
    }
  })
})
