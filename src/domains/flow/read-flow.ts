/** What people read: DAGs, versions, jobs with their state, tasks, and why a task exists and stands where it stands. Told by the rows that decided. */
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { type Paged, pageText, type Sql, statement } from '#store'
import type { StoredDagVersion, StoredFlowJob } from './dag.ts'
import { jobState } from './decide-flow.ts'
import { refuseMissingFlowTask, type StoredFlowTask } from './task.ts'

type PageOf = { readonly orgId: string; readonly limit: number }

type ReadDag = StoredDagVersion & { readonly deployed_at: Date; readonly jobs: number }
/** $1 org, $2 after this DAG, $3 limit. */
const listDagRows = statement<ReadDag & Paged>(
  'flow.list_dags',
  pageText(`select v.*, c.updated_at as deployed_at, (select count(*) from flow.jobs as j where j.dag_version_id = v.id)::int as jobs
from flow.dag_current_versions as c join flow.dag_versions as v on v.id = c.dag_version_id
where c.org_id = $1::uuid and ($2::text is null or c.dag_name > $2) order by c.dag_name limit $3`),
)
export const listDags = (sql: Sql, { orgId, after, limit }: PageOf & { readonly after: string | null }) =>
  sql.run(listDagRows, [orgId, after, limit])

type ReadVersion = StoredDagVersion & { readonly is_current: boolean }
/** $1 org, $2 DAG, $3 before this version, $4 limit. */
const listVersionRows = statement<ReadVersion & Paged>(
  'flow.list_versions',
  pageText(`select v.*, exists (select from flow.dag_current_versions as c where c.dag_version_id = v.id) as is_current
from flow.dag_versions as v where v.org_id = $1::uuid and v.dag_name = $2 and ($3::uuid is null or v.id < $3) order by v.id desc limit $4`),
)
export async function listDagVersions(
  sql: Sql,
  { orgId, dag, before, limit }: PageOf & { readonly dag: string; readonly before: string | null },
): Promise<Decision<readonly (ReadVersion & Paged)[]>> {
  const rows = await sql.run(listVersionRows, [orgId, dag, before, limit])
  return rows.length === 0 && before === null
    ? refuse('flow.dag.not_found', `There is no DAG ${quote(dag)}.`)
    : accept(rows)
}

type ReadJob = StoredFlowJob & {
  readonly queued: number
  readonly running: number
  readonly expired: number
  readonly draining: number
  readonly last_activity_at: Date | null
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly now: Date
}
const namesOf = (column: string) =>
  `array(select d.name::text from unnest(${column}) with ordinality as u(id, n) join flow.datasets as d on d.id = u.id::uuid order by u.n)`
/** $1 org, $2 and $3 after this DAG and job, $4 limit, $5 DAG. */
const listJobRows = statement<ReadJob & Paged>(
  'flow.list_jobs',
  pageText(`select j.*, a.*, ${namesOf('j.input_datasets')} as inputs, ${namesOf('j.output_datasets')} as outputs, statement_timestamp() as now
from flow.dag_current_versions as c join flow.jobs as j on j.dag_version_id = c.dag_version_id cross join lateral (
  select count(*) filter (where t.status = 'Queued')::int as queued, count(*) filter (where t.status = 'Running')::int as running,
    count(*) filter (where t.status = 'Running' and t.lease_expires_at <= statement_timestamp())::int as expired,
    count(*) filter (where t.status = 'Running' and t.outputs @> '[{"draining": true}]')::int as draining,
    max(greatest(t.created_at, t.started_at, t.completed_at)) as last_activity_at from flow.tasks as t where t.job_id = j.id) as a
where c.org_id = $1::uuid and ($2::text is null or (j.dag_name, j.name) > ($2, $3::text)) and ($5::text is null or j.dag_name = $5) order by j.dag_name, j.name limit $4`),
)
export async function listFlowJobs(
  sql: Sql,
  {
    orgId,
    after,
    limit,
    dag,
  }: PageOf & { readonly after: readonly [string, string] | null; readonly dag?: string | undefined },
) {
  const rows = await sql.run(listJobRows, [orgId, after?.[0] ?? null, after?.[1] ?? null, limit, dag ?? null])
  return rows.map((row) => ({
    ...row,
    state: jobState(row, { ...row, lastActivityAt: row.last_activity_at }, row.now),
  }))
}

type OfJob = { readonly dag: string; readonly job: string; readonly max_attempts: number | null }
export type ReadFlowTask = StoredFlowTask & OfJob
const taskColumns = 't.*, j.dag_name as dag, j.name as job, j.max_attempts'

type TaskFilter = PageOf & {
  readonly before: string | null
  readonly dag?: string | undefined
  readonly job?: string | undefined
  readonly status?: StoredFlowTask['status'] | undefined
}
/** $1 org, $2 before this task, $3 limit, $4 DAG, $5 job, $6 status. */
const listTaskRows = statement<ReadFlowTask & Paged>(
  'flow.list_tasks',
  pageText(`select ${taskColumns} from flow.tasks as t join flow.jobs as j on j.id = t.job_id
where j.org_id = $1::uuid and ($2::uuid is null or t.id < $2) and ($4::text is null or j.dag_name = $4) and ($5::text is null or j.name = $5)
  and ($6::text is null or t.status::text = $6) order by t.id desc limit $3`),
)
export const listFlowTasks = (sql: Sql, { orgId, before, limit, dag, job, status }: TaskFilter) =>
  sql.run(listTaskRows, [orgId, before, limit, dag ?? null, job ?? null, status ?? null])

type Explained = ReadFlowTask &
  Pick<StoredFlowJob, 'runtime' | 'operator' | 'scaling'> & {
    readonly is_current: boolean
    /** Running tasks of its job. */
    readonly running: number
    /** The dataset whose update caused it. */
    readonly dataset: string | null
    readonly read: readonly { readonly dataset: string; readonly partition: string | null; readonly at: Date | null }[]
  }
/** $1 task, $2 org. */
const explain = statement<Explained>(
  'flow.explain_task',
  `select ${taskColumns}, j.runtime, j.operator, j.scaling, exists (select from flow.dag_current_versions as c where c.dag_version_id = j.dag_version_id) as is_current,
  (select count(*) from flow.tasks as r where r.job_id = j.id and r.status = 'Running')::int as running,
  (select d.name::text from flow.datasets as d where d.id = (t.caused_by->>'dataset_uuid')::uuid) as dataset,
  coalesce((select jsonb_agg(jsonb_build_object('dataset', d.name, 'partition', i.input_partition_key, 'at', i.input_version) order by d.name, i.input_partition_key)
    from flow.task_inputs as i join flow.datasets as d on d.id = i.input_dataset_uuid where i.task_id = t.id), '[]') as read
from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.id = $1::uuid and j.org_id = $2::uuid`,
)

export async function explainFlowTask(sql: Sql, orgId: string, taskId: string): Promise<Decision<Explained>> {
  const [task] = await sql.run(explain, [taskId, orgId])
  return task ? accept(task) : refuseMissingFlowTask()
}

const textOf = (value: unknown) => (typeof value === 'string' || typeof value === 'number' ? String(value) : '')

/** Why the task exists, from `caused_by`, which the statement that made it wrote. */
export function sayCause({ caused_by, dataset, partitions }: Explained): string {
  const cause = caused_by ?? {}
  const of = partitions && partitions.length > 0 ? `, partitions ${partitions.join(', ')}` : ''
  switch (cause['kind']) {
    case 'cron':
      return `It was due at ${textOf(cause['due_at'])}.`
    case 'restart':
      return `Its continuous source had no open task: run ${textOf(cause['run'])}.`
    case 'event': {
      if (dataset === null) return `The event ${quote(textOf(cause['event_id']))} was reported.`
      const by = textOf(cause['task_id'])
      if (by !== '') return `The dataset ${quote(dataset)} was updated by ${encodeId('flow_task', by)}${of}.`
      const isSwitch = textOf(cause['cursor']).startsWith('switch:')
      return `${isSwitch ? 'Readers switched to another version of' : 'A deployment read what there was of'} the dataset ${quote(dataset)}${of}.`
    }
    default:
      return 'Its cause is not recorded.'
  }
}

/** Why the task stands where it stands. */
export function sayStanding(task: Explained): string {
  const { status, attempt, max_attempts, memo_of, command_id, next_retry_at, error_message } = task
  const limit = textOf(task.scaling?.['max_concurrency'])
  const which = `Attempt ${attempt}${max_attempts === null ? '' : ` of ${max_attempts}`}`
  const at = (time: Date | null) => (time ? formatInstant(time) : '')
  switch (status) {
    case 'Queued':
      if (!task.is_current) return 'Its version of the DAG does not serve, so nobody claims it.'
      if (limit !== '' && task.running >= Number(limit))
        return `It waits for a place: its job runs at most ${limit} at once.`
      return task.runtime === 'dispatcher' || task.runtime === 'lambda'
        ? `${which} waits for its turn.`
        : `${which} waits for a worker with the operator ${quote(task.operator)}.`
    case 'Running':
      return command_id === null
        ? `${which} runs at ${quote(task.worker_id ?? '')} since ${at(task.started_at)}; its lease ends at ${at(task.lease_expires_at)}.`
        : `${which} follows the command ${encodeId('command', command_id)}.`
    case 'Completed':
      return memo_of === null
        ? `${which} completed at ${at(task.completed_at)}.`
        : `It has the outputs of ${encodeId('flow_task', memo_of)}: the same config and the same inputs.`
    case 'Failed':
      return `${which} failed: ${error_message ?? ''} ${next_retry_at ? `The next one is due at ${at(next_retry_at)}.` : 'No attempt is left.'}`
    case 'Canceled':
      return `It was canceled at ${at(task.completed_at)}.`
  }
}
