/** Everything that the runner of a task needs, and nothing that opens a store. */
import { encodeId } from '#kernel/ids'
import { accept, type Decision } from '#kernel/refusal'
import { type Sql, statement } from '#store'
import type { FlowDeps } from './deps.ts'
import { keepFlowTask, type TaskHolder } from './end-task.ts'
import type { FlowTaskPayload, PayloadRow } from './operator.ts'
import type { StoredFlowTask } from './task.ts'

/** $1 task. Inputs in a stable order: their place is their name in the calls of workers. */
const readRow = statement<PayloadRow>(
  'flow.read_payload',
  `select j.org_id, j.dag_name, j.name, j.operator, j.config, j.update_strategy, j.unique_key,
  coalesce((select jsonb_agg(jsonb_build_object('dataset', d.name, 'version', v.id, 'location', v.storage_location, 'kind', d.storage->>'kind', 'partition', p.key, 'at', p.value->>'at') order by d.name, p.key)
    from jsonb_each(t.input_versions) as i join flow.datasets as d on d.id = i.key::uuid join flow.dataset_versions as v on v.id = (i.value->>'version')::uuid
      left join lateral jsonb_each(i.value->'partitions') as p on true), '[]') as inputs,
  coalesce((select jsonb_agg(jsonb_build_object('index', o.n - 1, 'dataset', d.name, 'version', v.id, 'location', v.storage_location, 'kind', d.storage->>'kind') order by o.n)
    from unnest(j.output_versions) with ordinality as o(id, n) join flow.dataset_versions as v on v.id = o.id join flow.datasets as d on d.id = v.dataset_uuid), '[]') as outputs,
  coalesce((select jsonb_object_agg(s.state_key, s.state) from flow.operator_state as s where s.org_id = j.org_id and s.job_id = j.id), '{}') as state
from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.id = $1::uuid`,
)

export async function readPayloadRow(sql: Sql, taskId: string): Promise<PayloadRow> {
  const [row] = await sql.run(readRow, [taskId])
  if (!row) throw new Error(`The task ${taskId} has no job.`)
  return row
}

export function toTaskPayload(task: StoredFlowTask, row: PayloadRow): FlowTaskPayload {
  const task_id = encodeId('flow_task', task.id)
  const { name, dag_name: dag, operator, config, update_strategy, unique_key } = row
  return {
    task_id,
    attempt: task.attempt,
    lease_token: task.lease_token ?? '',
    lease_expires_at: task.lease_expires_at?.toISOString() ?? '',
    job: { name, dag, operator, config, update_strategy, unique_key: unique_key ?? [] },
    partitions: task.partitions ?? [],
    inputs: row.inputs.map(({ dataset, version, partition, at }) => ({
      dataset,
      version: encodeId('dataset_version', version),
      partition,
      materialized_at: at,
    })),
    outputs: row.outputs.map(({ index, dataset, version }) => ({
      index,
      dataset,
      version: encodeId('dataset_version', version),
    })),
    state: row.state,
  }
}

export const flowPayloadOf = async (
  { commands: { db } }: Pick<FlowDeps, 'commands'>,
  task: StoredFlowTask,
): Promise<FlowTaskPayload> => toTaskPayload(task, await readPayloadRow(db, task.id))

/** For a function or a worker that has lost what the claim gave it. It must hold the lease. */
export async function fetchFlowTask(deps: FlowDeps, holder: TaskHolder): Promise<Decision<FlowTaskPayload>> {
  const kept = await keepFlowTask(deps, holder)
  return kept.ok ? accept(await flowPayloadOf(deps, kept.value)) : kept
}
