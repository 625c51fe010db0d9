/** Rows of flow that the schema accepts. */
import { randomUUID } from 'node:crypto'
import type { Row, StoreRows } from './store-rows.ts'

export const flowRows = {
  'flow.dag_versions': ({ org, workspace }: StoreRows) => ({
    id: randomUUID(),
    org_id: org,
    dag_name: 'shop',
    yaml_hash: randomUUID(),
    workspace_id: workspace,
  }),
  'flow.dag_current_versions': ({ org, dag }: StoreRows) => ({ org_id: org, dag_name: 'shop', dag_version_id: dag }),
  'flow.jobs': ({ org, dag }: StoreRows) => ({
    id: randomUUID(),
    org_id: org,
    name: randomUUID(),
    dag_name: 'shop',
    dag_version_id: dag,
    activation: 'source',
    runtime: 'ecs_udf',
    operator: 'pull',
    source: { kind: 'event' },
    config_hash: 'c1',
    update_strategy: 'replace',
  }),
  'flow.datasets': ({ org }: StoreRows) => ({
    id: randomUUID(),
    org_id: org,
    name: randomUUID(),
    producer_dag_name: 'shop',
    producer_job_name: randomUUID(),
    producer_output_index: 0,
  }),
  'flow.dataset_versions': ({ dataset }: StoreRows) => ({
    id: randomUUID(),
    dataset_uuid: dataset,
    storage_location: 'flow_data.v_1',
    config_hash: randomUUID(),
  }),
  'flow.dag_version_datasets': ({ dag, dataset, dataset_version }: StoreRows) => ({
    dag_version_id: dag,
    dataset_uuid: dataset,
    dataset_version,
  }),
  'flow.tasks': ({ job }: StoreRows) => ({ id: randomUUID(), job_id: job, dedupe_key: randomUUID() }),
  'flow.outbox': ({ flow_task }: StoreRows) => ({ kind: 'enqueue_task', payload: { task_id: flow_task, attempt: 1 } }),
  'flow.task_inputs': ({ flow_task, dataset }: StoreRows) => ({
    task_id: flow_task,
    input_dataset_uuid: dataset,
    input_partition_key: randomUUID(),
    input_version: '2026-05-01Z',
  }),
  'flow.dataset_partitions': ({ flow_task, dataset_version }: StoreRows) => ({
    dataset_version,
    partition_key: randomUUID(),
    materialized_at: '2026-05-01Z',
    generation: 1,
    task_id: flow_task,
  }),
  'flow.column_lineage': ({ dataset, job }: StoreRows) => ({
    output_dataset_uuid: dataset,
    output_column: randomUUID(),
    input_dataset_uuid: dataset,
    input_column: 'amount',
    job_id: job,
  }),
  'flow.operator_state': ({ org, job }: StoreRows) => ({ org_id: org, job_id: job, state_key: randomUUID() }),
} as const

/** A row in every table of flow. */
export async function putFlowRows(
  put: (table: keyof typeof flowRows, row?: Row) => Promise<unknown>,
  world: StoreRows,
): Promise<void> {
  await put('flow.dag_versions', { id: world.dag })
  await put('flow.dag_current_versions')
  await put('flow.jobs', { id: world.job })
  await put('flow.datasets', { id: world.dataset })
  await put('flow.dataset_versions', { id: world.dataset_version })
  await put('flow.dag_version_datasets')
  await put('flow.tasks', { id: world.flow_task })
  await put('flow.outbox')
  await put('flow.task_inputs')
  await put('flow.dataset_partitions')
  await put('flow.column_lineage')
  await put('flow.operator_state')
}
