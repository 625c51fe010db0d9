/** One key, one row: twenty callers, other content, no key at all, and the moment in which the winner is not yet visible. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aWorkspace, by, events, newId } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { until } from '#test/until'
import type { EventDraft } from './events.ts'
import { insertOnce, onceTable } from './once.ts'
import type { RowType } from './transition.ts'

const commandRow: RowType<{ command_id: string; status: string; payload: unknown }> = {}

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
  row: commandRow,
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

  test('twenty concurrent callers whose id follows from the key: no caller fails on the id', async () => {
    for (let round = 0; round < 60; round++) {
      const row = aRow(`derived-${round}`)
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => insertOnce(opened.db, commands, row, created())),
      )
      assert.equal(answers.filter((answer) => answer.ok && answer.value.inserted).length, 1)
      assert.ok(answers.every((answer) => answer.ok && answer.value.row.command_id === row.command_id))
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
})
