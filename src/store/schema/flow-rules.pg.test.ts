/** Every rule of the tables of flow, broken once, and rows that they accept. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { breakEveryRule } from '#test/broken-rows'
import { openTestDb, type TestDb } from '#test/database'
import type { flowRows } from '#test/flow-rows'
import { insertRow, insertStoreRows, rowsOf, type StoreRows } from '#test/store-rows'

const versions = 'flow.dag_versions'
const served = 'flow.dag_current_versions'
const jobs = 'flow.jobs'
const datasets = 'flow.datasets'
const built = 'flow.dataset_versions'
const pointers = 'flow.dag_version_datasets'
const tasks = 'flow.tasks'
const outbox = 'flow.outbox'
const inputs = 'flow.task_inputs'
const partitions = 'flow.dataset_partitions'
const lineage = 'flow.column_lineage'
const states = 'flow.operator_state'
const nowhere = '00000000-0000-7000-8000-000000000001'
const at = '2026-05-01Z'

const each = (value: unknown, ...columns: string[]) => columns.map((column) => ({ [column]: value }))
const reactive = {
  activation: 'reactive',
  source: null,
  execution_strategy: 'PerPartition',
  input_datasets: [nowhere],
}
const running = { status: 'Running', worker_id: 'w1', lease_token: nowhere, lease_expires_at: at, started_at: at }

breakEveryRule(
  [versions, served, jobs, datasets, built, pointers, tasks, outbox, inputs, partitions, lineage, states],
  [
    { constraint: 'dag_versions_org_fk', table: versions, rows: '[FLOW-010]', by: { org_id: nowhere } },
    {
      constraint: 'dag_versions_yaml_uq',
      table: versions,
      rows: '[FLOW-010]',
      given: { yaml_hash: 'h1' },
      by: { yaml_hash: 'h1' },
    },
    {
      constraint: 'dag_versions_workspace_fk',
      table: versions,
      by: ({ elsewhere }) => ({ workspace_id: elsewhere.workspace }),
    },
    {
      constraint: 'dag_versions_command_fk',
      table: versions,
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    { constraint: 'filled_text_ck', table: versions, by: each('', 'dag_name', 'yaml_hash') },
    { constraint: 'finite_time_ck', table: versions, by: each('infinity', 'created_at') },
    { constraint: 'dag_current_versions_org_fk', table: served, by: { org_id: nowhere, dag_name: 'other' } },
    {
      constraint: 'dag_current_versions_pk',
      table: served,
      rows: '[FLOW-012]',
      by: {},
    },
    {
      constraint: 'dag_current_versions_version_fk',
      table: served,
      rows: '[FLOW-012] [FLOW-014]',
      by: ({ here, elsewhere }) => [
        { dag_name: 'other', dag_version_id: nowhere },
        // The version of another DAG, and that of another org.
        { dag_name: 'other', dag_version_id: here.dag },
        { dag_name: 'other', dag_version_id: elsewhere.dag },
      ],
    },
    { constraint: 'filled_text_ck', table: served, by: each('', 'dag_name') },
    { constraint: 'finite_time_ck', table: served, by: each('infinity', 'updated_at') },
    { constraint: 'jobs_org_fk', table: jobs, rows: '[FLOW-016]', by: { org_id: nowhere } },
    {
      constraint: 'jobs_version_fk',
      table: jobs,
      rows: '[FLOW-016]',
      by: ({ elsewhere }) => [{ dag_name: 'other' }, { dag_version_id: elsewhere.dag }, { dag_version_id: nowhere }],
    },
    { constraint: 'jobs_name_uq', table: jobs, rows: '[FLOW-029]', given: { name: 'daily' }, by: { name: 'daily' } },
    { constraint: 'activation_ck', table: jobs, rows: '[FLOW-017]', by: each('manual', 'activation') },
    { constraint: 'job_runtime_ck', table: jobs, rows: '[FLOW-018]', by: each('ecs', 'runtime') },
    {
      constraint: 'execution_strategy_ck',
      table: jobs,
      rows: '[FLOW-022]',
      by: [{ ...reactive, execution_strategy: 'Bulk' }],
    },
    { constraint: 'update_strategy_ck', table: jobs, rows: '[FLOW-026]', by: each('merge', 'update_strategy') },
    { constraint: 'inputs_when_ck', table: jobs, by: each('some', 'inputs_when') },
    {
      constraint: 'jobs_activation_ck',
      table: jobs,
      rows: '[FLOW-020] [FLOW-022]',
      by: [
        { source: null },
        { execution_strategy: 'PerUpdate' },
        { idle_timeout: '5m' },
        { input_datasets: [nowhere] },
        { ...reactive, source: { kind: 'event' } },
        { ...reactive, bootstrap: {} },
        { ...reactive, execution_strategy: null },
        { ...reactive, input_datasets: [] },
      ],
    },
    {
      constraint: 'jobs_unique_key_ck',
      table: jobs,
      rows: '[FLOW-026]',
      by: [{ update_strategy: 'append' }, { update_strategy: 'append', unique_key: [] }],
    },
    {
      constraint: 'jobs_outputs_ck',
      table: jobs,
      by: [{ output_versions: [nowhere] }, { output_datasets: [nowhere] }],
    },
    {
      constraint: 'filled_text_ck',
      table: jobs,
      by: each('', 'name', 'dag_name', 'operator', 'config_hash', 'idle_timeout'),
    },
    { constraint: 'object_json_ck', table: jobs, by: each('[]', 'source', 'bootstrap', 'config', 'scaling') },
    {
      constraint: 'count_from_one_ck',
      table: jobs,
      by: each(0, 'timeout_seconds', 'heartbeat_timeout_seconds', 'max_attempts'),
    },
    { constraint: 'finite_time_ck', table: jobs, by: each('infinity', 'created_at', 'updated_at') },
    { constraint: 'datasets_org_fk', table: datasets, rows: '[FLOW-032]', by: { org_id: nowhere } },
    {
      constraint: 'datasets_name_uq',
      table: datasets,
      rows: '[FLOW-033]',
      given: { name: 'orders' },
      by: { name: 'orders' },
    },
    {
      constraint: 'datasets_producer_uq',
      table: datasets,
      rows: '[FLOW-034]',
      given: { producer_job_name: 'pull' },
      by: { producer_job_name: 'pull' },
    },
    {
      constraint: 'filled_text_ck',
      table: datasets,
      by: each('', 'name', 'producer_dag_name', 'producer_job_name'),
    },
    { constraint: 'count_from_zero_ck', table: datasets, by: each(-1, 'producer_output_index') },
    { constraint: 'object_json_ck', table: datasets, by: each('[]', 'storage') },
    { constraint: 'finite_time_ck', table: datasets, by: each('infinity', 'created_at', 'updated_at') },
    { constraint: 'dataset_versions_dataset_fk', table: built, rows: '[FLOW-037]', by: { dataset_uuid: nowhere } },
    {
      constraint: 'dataset_versions_config_uq',
      table: built,
      rows: '[FLOW-038]',
      given: { config_hash: 'c1' },
      by: { config_hash: 'c1' },
    },
    {
      constraint: 'dataset_versions_range_ck',
      table: built,
      rows: '[FLOW-045]',
      by: [{ range_start: 1 }, { range_end: 1 }, { range_start: 2, range_end: 1 }],
    },
    { constraint: 'filled_text_ck', table: built, by: each('', 'storage_location', 'config_hash') },
    { constraint: 'finite_time_ck', table: built, by: each('infinity', 'created_at') },
    { constraint: 'dag_version_datasets_pk', table: pointers, rows: '[FLOW-042]', by: {} },
    { constraint: 'dag_version_datasets_dag_fk', table: pointers, rows: '[FLOW-042]', by: { dag_version_id: nowhere } },
    {
      constraint: 'dag_version_datasets_dataset_fk',
      table: pointers,
      rows: '[FLOW-042]',
      by: { dataset_uuid: nowhere },
    },
    {
      constraint: 'dag_version_datasets_version_fk',
      table: pointers,
      rows: '[FLOW-043]',
      // A dataset that this DAG version does not point at yet, with the version of another dataset.
      by: ({ here, elsewhere }) => ({ dataset_uuid: elsewhere.dataset, dataset_version: here.dataset_version }),
    },
    { constraint: 'tasks_job_fk', table: tasks, rows: '[FLOW-052]', by: { job_id: nowhere } },
    { constraint: 'tasks_memo_fk', table: tasks, by: { status: 'Completed', completed_at: at, memo_of: nowhere } },
    { constraint: 'tasks_command_fk', table: tasks, by: { command_id: nowhere } },
    {
      constraint: 'idx_tasks_job_dedupe',
      table: tasks,
      rows: '[FLOW-059]',
      given: { dedupe_key: 'event:1' },
      by: { dedupe_key: 'event:1' },
    },
    { constraint: 'task_status_ck', table: tasks, rows: '[FLOW-054]', by: each('Waiting', 'status') },
    { constraint: 'count_from_one_ck', table: tasks, rows: '[FLOW-055]', by: each(0, 'attempt') },
    {
      constraint: 'tasks_lease_ck',
      table: tasks,
      rows: '[FLOW-057]',
      by: ['worker_id', 'lease_token', 'lease_expires_at', 'started_at'].map((column) => ({
        ...running,
        [column]: null,
      })),
    },
    {
      constraint: 'tasks_free_ck',
      table: tasks,
      rows: '[FLOW-057]',
      by: [
        { worker_id: 'w1' },
        { lease_token: nowhere },
        { lease_expires_at: at },
        { status: 'Canceled', completed_at: at, lease_token: nowhere },
      ],
    },
    {
      constraint: 'tasks_ended_ck',
      table: tasks,
      by: [{ completed_at: at }, { status: 'Completed' }, { status: 'Canceled' }],
    },
    { constraint: 'tasks_retry_ck', table: tasks, by: { next_retry_at: at } },
    {
      constraint: 'tasks_memo_ck',
      table: tasks,
      by: ({ here }) => ({ memo_of: here.flow_task }),
    },
    { constraint: 'filled_text_ck', table: tasks, by: each('', 'dedupe_key') },
    { constraint: 'object_json_ck', table: tasks, by: each('[]', 'input_versions', 'caused_by') },
    { constraint: 'list_json_ck', table: tasks, by: each('{}', 'outputs') },
    {
      constraint: 'finite_time_ck',
      table: tasks,
      by: [
        ...each('infinity', 'last_heartbeat', 'started_at', 'created_at'),
        { status: 'Completed', completed_at: 'infinity' },
        { status: 'Failed', next_retry_at: 'infinity' },
        { ...running, lease_expires_at: 'infinity' },
      ],
    },
    { constraint: 'outbox_kind_ck', table: outbox, rows: '[FLOW-080]', by: each('call', 'kind') },
    { constraint: 'outbox_status_ck', table: outbox, rows: '[FLOW-080]', by: each('Waiting', 'status') },
    {
      constraint: 'outbox_processed_ck',
      table: outbox,
      by: [{ status: 'Done' }, { processed_at: at }],
    },
    { constraint: 'object_json_ck', table: outbox, by: each('[]', 'payload') },
    { constraint: 'count_from_zero_ck', table: outbox, by: each(-1, 'attempts') },
    {
      constraint: 'finite_time_ck',
      table: outbox,
      by: [...each('infinity', 'available_at', 'created_at'), { status: 'Done', processed_at: 'infinity' }],
    },
    { constraint: 'task_inputs_task_fk', table: inputs, rows: '[FLOW-091]', by: { task_id: nowhere } },
    { constraint: 'task_inputs_dataset_fk', table: inputs, rows: '[FLOW-091]', by: { input_dataset_uuid: nowhere } },
    {
      constraint: 'task_inputs_pk',
      table: inputs,
      rows: '[FLOW-091]',
      given: { input_partition_key: 'a' },
      by: { input_partition_key: 'a', input_version: '2026-05-02Z' },
    },
    { constraint: 'finite_time_ck', table: inputs, by: each('infinity', 'input_version') },
    {
      constraint: 'dataset_partitions_version_fk',
      table: partitions,
      by: { dataset_version: nowhere },
    },
    { constraint: 'dataset_partitions_task_fk', table: partitions, by: { task_id: nowhere } },
    { constraint: 'filled_text_ck', table: partitions, by: each('', 'partition_key') },
    { constraint: 'count_from_one_ck', table: partitions, by: each(0, 'generation') },
    { constraint: 'object_json_ck', table: partitions, by: each('[]', 'metrics') },
    { constraint: 'finite_time_ck', table: partitions, by: each('infinity', 'materialized_at') },
    {
      constraint: 'column_lineage_pk',
      table: lineage,
      rows: '[FLOW-093]',
      given: { output_column: 'total' },
      by: { output_column: 'total', job_id: null },
    },
    {
      constraint: 'column_lineage_output_fk',
      table: lineage,
      rows: '[FLOW-093]',
      by: { output_dataset_uuid: nowhere },
    },
    { constraint: 'column_lineage_input_fk', table: lineage, rows: '[FLOW-093]', by: { input_dataset_uuid: nowhere } },
    { constraint: 'column_lineage_job_fk', table: lineage, rows: '[FLOW-093]', by: { job_id: nowhere } },
    { constraint: 'filled_text_ck', table: lineage, by: each('', 'output_column', 'input_column') },
    { constraint: 'operator_state_org_fk', table: states, rows: '[FLOW-095]', by: { org_id: nowhere } },
    {
      constraint: 'operator_state_job_fk',
      table: states,
      rows: '[FLOW-095]',
      by: ({ elsewhere }) => [{ job_id: nowhere }, { job_id: elsewhere.job }],
    },
    {
      constraint: 'operator_state_pk',
      table: states,
      rows: '[FLOW-095]',
      given: { state_key: 'default' },
      by: { state_key: 'default' },
    },
    { constraint: 'filled_text_ck', table: states, by: each('', 'state_key') },
    { constraint: 'object_json_ck', table: states, by: each('[]', 'state') },
    { constraint: 'finite_time_ck', table: states, by: each('infinity', 'updated_at') },
  ],
)

describe('rows of flow that are accepted', () => {
  let opened: TestDb
  let here: StoreRows
  before(async () => {
    opened = await openTestDb()
    here = await insertStoreRows(opened.db)
  })
  after(() => opened.close())
  const put = (table: keyof typeof flowRows, row = {}) =>
    insertRow(opened.db, table, { ...rowsOf[table](here), ...row })

  const countOf = async (sql: string, values: readonly unknown[]) => (await opened.db.query(sql, values)).length

  test('[FLOW-017] [FLOW-018] [FLOW-022] [FLOW-026] each activation, runtime and strategy of the lists', async () => {
    const runtimes = ['lambda', 'ecs_platform', 'ecs_udf', 'dispatcher'].map((runtime) => ({ runtime }))
    const strategies = ['PerUpdate', 'PerPartition'].map((execution_strategy) => ({ ...reactive, execution_strategy }))
    const rows = [...runtimes, ...strategies, { update_strategy: 'append', unique_key: ['id'] }]
    for (const row of rows) await put(jobs, { ...row, operator: 'listed' })
    assert.equal(await countOf('select from flow.jobs where operator = $1', ['listed']), rows.length)
  })

  test('[FLOW-038] [FLOW-045] one configuration has a version for each range, and for none', async () => {
    const ranges = [[], [1, 1], [1, 9]]
    for (const [range_start = null, range_end = null] of ranges)
      await put(built, { config_hash: 'ranges', range_start, range_end })
    assert.equal(await countOf('select from flow.dataset_versions where config_hash = $1', ['ranges']), ranges.length)
  })

  test('[FLOW-053] [FLOW-059] tasks without a key are many, and another job may have the same key', async () => {
    const other = await insertRow(opened.db, jobs, rowsOf[jobs](here))
    const rows = [{ dedupe_key: null }, { dedupe_key: null }, { dedupe_key: 'same' }]
    for (const row of [...rows, { dedupe_key: 'same', job_id: other.id }]) await put(tasks, row)
    assert.equal(await countOf('select from flow.tasks where dedupe_key is null', []), 2)
    assert.equal(await countOf('select from flow.tasks where dedupe_key = $1', ['same']), 2)
  })

  test('[FLOW-093] a column comes from many columns, without a job', async () => {
    for (const input_column of ['a', 'b']) await put(lineage, { output_column: 'sum', input_column, job_id: null })
    assert.equal(await countOf('select from flow.column_lineage where output_column = $1', ['sum']), 2)
  })
})
