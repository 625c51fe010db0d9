/** What a request sees of the tables of flow: the rows of its org, also in the tables that have no org. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import type { flowRows } from '#test/flow-rows'
import { insertStoreRows, rowsOf, type StoreRows } from '#test/store-rows'

describe('row security of flow', () => {
  let opened: TestDb
  let here: StoreRows
  let elsewhere: StoreRows
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 1 })
    here = await insertStoreRows(opened.db)
    elsewhere = await insertStoreRows(opened.db)
  })
  after(() => opened.close())

  const asApp = <T>(workspace: string | undefined, ask: (query: typeof opened.db.query) => Promise<T>): Promise<T> =>
    opened.db.transaction(async (tx) => {
      await tx.query('set local role concord_app')
      if (workspace !== undefined) await tx.query(`select set_config('concord.workspace_id', $1, true)`, [workspace])
      return ask(tx.query.bind(tx))
    })
  /** What tells the world of a row. */
  const owner: Record<keyof typeof flowRows, readonly [string, keyof StoreRows]> = {
    'flow.dag_versions': ['org_id', 'org'],
    'flow.dag_current_versions': ['org_id', 'org'],
    'flow.jobs': ['org_id', 'org'],
    'flow.datasets': ['org_id', 'org'],
    'flow.dataset_versions': ['dataset_uuid', 'dataset'],
    'flow.dag_version_datasets': ['dag_version_id', 'dag'],
    'flow.tasks': ['job_id', 'job'],
    'flow.outbox': [`payload->>'task_id'`, 'flow_task'],
    'flow.task_inputs': ['task_id', 'flow_task'],
    'flow.dataset_partitions': ['task_id', 'flow_task'],
    'flow.column_lineage': ['job_id', 'job'],
    'flow.operator_state': ['org_id', 'org'],
  }

  for (const [table, [column, name]] of Object.entries(owner) as [
    keyof typeof flowRows,
    readonly [string, keyof StoreRows],
  ][]) {
    test(`[FLOW-108] ${table}: a request sees the rows of its org and writes none; the engine sees both`, async () => {
      const sql = `select distinct (${column})::text as id from ${table} order by 1`
      const seen = (workspace?: string) =>
        asApp(workspace, async (query) => (await query<{ id: string }>(sql)).map(({ id }) => id))
      assert.deepEqual(await seen(here.workspace), [here[name]])
      assert.deepEqual(await seen(elsewhere.workspace), [elsewhere[name]])
      assert.deepEqual(await seen(), [])
      const all = (await opened.db.query<{ id: string }>(sql)).map(({ id }) => id)
      assert.deepEqual(all, [here[name], elsewhere[name]].sort())
      const write = asApp(here.workspace, (query) => {
        const row = rowsOf[table](here)
        const marks = Object.keys(row).map((_, index) => `$${index + 1}`)
        return query(
          `insert into ${table} (${Object.keys(row).join(', ')}) values (${marks.join(', ')})`,
          Object.values(row),
        )
      })
      await assert.rejects(write, { code: '42501', message: /permission denied/ })
    })
  }
})
