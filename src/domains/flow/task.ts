/**
 * A flow task: its row and every statement that moves it. Each move is one conditional statement with everything that belongs to it: the outbox row, the
 * partitions, the operator's state. Leases are set and checked by the database's clock.
 */
import type { JsonObject } from '#kernel/json-value'
import { canMove } from '#kernel/machine'
import { type FlowTaskState, flowTaskMachine } from '#kernel/machines/flow'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { failpoint, type Sql, statement, type Tx } from '#store'
import type { RowOf } from '#store/rows'
import { LEASE_SECONDS, type OutputReport, type PlannedTask } from './decide-flow.ts'
import { type FlowDeps, OUTBOX_CHANNEL } from './deps.ts'

export type StoredFlowTask = RowOf<
  'flow.tasks',
  {
    readonly outputs: readonly OutputReport[] | null
    readonly input_versions: JsonObject | null
    readonly caused_by: JsonObject | null
  }
>

export const NOW = 'statement_timestamp()'

/** The columns that a move writes, from the machine: a move that it does not have fails when this file is loaded. */
export function moveSql(from: readonly FlowTaskState[], to: FlowTaskState): string {
  const wrong = from.find((state) => !canMove(flowTaskMachine, state, to))
  if (wrong) throw new KernelFault('flow.move', `A flow task cannot move from ${wrong} to ${to}.`)
  const on = ({ on: states }: { readonly on: readonly FlowTaskState[] }) => states.includes(to)
  const stamps = (flowTaskMachine.stamps ?? []).filter(on).map(({ column }) => `${column} = ${NOW}`)
  const clears = (flowTaskMachine.clears ?? []).filter(on).map(({ column }) => `${column} = null`)
  return [`status = '${to}'`, ...stamps, ...clears].join(', ')
}

/** Bounded by the time limit of the attempt, so an expired lease is also an expired attempt. */
export const leaseUntil = (from: string) =>
  `least(${NOW} + coalesce(j.heartbeat_timeout_seconds, ${LEASE_SECONDS}) * interval '1 second', ${from} + j.timeout_seconds * interval '1 second')`

export const lineageOf = (task: string, event: string) =>
  `insert into flow.outbox (kind, payload) select 'emit_lineage', jsonb_build_object('task_id', ${task}.id, 'attempt', ${task}.attempt, 'event', ${event}, 'at', ${NOW}) from ${task}`

// Creation.

type Made = { readonly id: string; readonly job_id: string; readonly status: FlowTaskState }

/**
 * $1 the tasks. A task whose key exists for its job is not made, and has no outbox row. A task that another version of the same job has completed with the
 * same inputs, into the same dataset versions, is completed with its outputs. A due time counts once over all versions of its job.
 */
const insertTasks = statement<Made>(
  'flow.insert_tasks',
  `with asked as (
  select * from jsonb_to_recordset($1::jsonb) as a(id uuid, job_id uuid, dedupe_key text, partitions jsonb, input_versions jsonb, inputs jsonb, caused_by jsonb)
  where not (a.dedupe_key like 'cron:%' and exists (select from flow.jobs as j join flow.jobs as o on o.org_id = j.org_id and o.dag_name = j.dag_name and o.name = j.name
    join flow.tasks as t on t.job_id = o.id and t.dedupe_key = a.dedupe_key where j.id = a.job_id))
), memo as (
  select distinct on (a.id) a.id, t.id as memo_of, t.outputs from asked as a join flow.jobs as j on j.id = a.job_id
    join flow.jobs as o on o.org_id = j.org_id and o.dag_name = j.dag_name and o.name = j.name and o.id <> j.id
      and o.config_hash = j.config_hash and o.output_versions = j.output_versions
    join flow.tasks as t on t.job_id = o.id and t.dedupe_key = a.dedupe_key and t.status = 'Completed' and t.input_versions = a.input_versions
  order by a.id, t.completed_at desc
), made as (
  insert into flow.tasks (id, job_id, dedupe_key, status, partitions, input_versions, caused_by, memo_of, outputs, completed_at)
  select a.id, a.job_id, a.dedupe_key, case when m.id is null then '${flowTaskMachine.initial}' else 'Completed' end,
    case when a.partitions is not null then array(select jsonb_array_elements_text(a.partitions)) end,
    a.input_versions, a.caused_by, m.memo_of, m.outputs, case when m.id is not null then ${NOW} end
  from asked as a left join memo as m on m.id = a.id
  on conflict (job_id, dedupe_key) where dedupe_key is not null do nothing
  returning id, job_id, status
), inputs as (
  insert into flow.task_inputs (task_id, input_dataset_uuid, input_partition_key, input_version)
  select m.id, i.dataset, i.partition, i.at from made as m join asked as a on a.id = m.id
    cross join lateral jsonb_to_recordset(coalesce(a.inputs, '[]')) as i(dataset uuid, partition text, at timestamptz)
), queued as (
  insert into flow.outbox (kind, payload) select 'enqueue_task', jsonb_build_object('task_id', m.id, 'attempt', 1) from made as m where m.status = 'Queued'
)
select id, job_id, status from made`,
)

type NewTask = Partial<Omit<PlannedTask, 'dedupeKey'>> & {
  readonly jobId: string
  readonly dedupeKey: string | null
  readonly causedBy: JsonObject
}

/** Returns those that are new. */
export async function createTasks(
  { commands: { newId }, announce }: Pick<FlowDeps, 'commands' | 'announce'>,
  sql: Sql | Tx,
  tasks: readonly NewTask[],
): Promise<readonly Made[]> {
  if (tasks.length === 0) return []
  const asked = tasks.map(({ jobId, dedupeKey, partitions, inputVersions, inputs, causedBy }) => ({
    id: newId(),
    job_id: jobId,
    dedupe_key: dedupeKey,
    partitions: partitions ?? null,
    input_versions: inputVersions ?? null,
    inputs: inputs ?? [],
    caused_by: causedBy,
  }))
  const made = await sql.run(insertTasks, [JSON.stringify(asked)])
  await failpoint('flow.tasks_created')
  if (made.length > 0) afterwards(sql, () => announce(OUTBOX_CHANNEL))
  return made
}

const afterwards = (sql: Sql | Tx, work: () => void) => ('afterCommit' in sql ? sql.afterCommit(work) : work())

// Claims.

type Offer = { readonly job_id: string; readonly max_concurrency: number | null }

/** Jobs of current versions with a queued task and a free place, the longest wait first. */
const offered = (where: string) => `select j.id as job_id, (j.scaling->>'max_concurrency')::int as max_concurrency
from flow.dag_current_versions as c join flow.jobs as j on j.dag_version_id = c.dag_version_id and j.org_id = c.org_id
  cross join lateral (select t.id, t.created_at from flow.tasks as t where t.job_id = j.id and t.status = 'Queued' ${where} order by t.created_at, t.id limit 1) as q
where (j.scaling is null or (select count(*) from flow.tasks as r where r.job_id = j.id and r.status = 'Running') < (j.scaling->>'max_concurrency')::int)`

/** $1 org, $2 operators. */
const listOffers = statement<Offer>(
  'flow.list_offers',
  `${offered('')} and c.org_id = $1::uuid and j.operator = any($2::text[]) and j.runtime in ('ecs_platform', 'ecs_udf') order by q.created_at limit 20`,
)
/** $1 task. */
const findOffer = statement<Offer>(
  'flow.find_offer',
  `${offered('and t.id = $1::uuid')} and j.id = (select job_id from flow.tasks where id = $1::uuid)`,
)
/** $1 job. Claims of a job with a limit are counted one after the other. */
const lockJob = statement('flow.lock_job', 'select from flow.jobs where id = $1::uuid for no key update')
/** $1 job, $2 worker, $3 token, $4 limit or null, $5 task or null. */
const claimNext = statement<StoredFlowTask>(
  'flow.claim',
  `with next as materialized (
  select t.id from flow.tasks as t where t.job_id = $1::uuid and t.status = 'Queued' and ($5::uuid is null or t.id = $5::uuid)
    and ($4::int is null or (select count(*) from flow.tasks as r where r.job_id = $1::uuid and r.status = 'Running') < $4::int)
  order by t.created_at, t.id limit 1 for update skip locked
), claimed as (
  update flow.tasks as t set ${moveSql(['Queued'], 'Running')}, worker_id = $2, lease_token = $3::uuid, lease_expires_at = ${leaseUntil(NOW)}
  from next, flow.jobs as j where t.id = next.id and j.id = t.job_id returning t.*
), began as (${lineageOf('claimed', "'START'")})
select * from claimed`,
)

type Claim = { readonly workerId: string }

async function claimOffer(
  { commands: { db, newId } }: FlowDeps,
  { job_id, max_concurrency }: Offer,
  workerId: string,
  taskId: string | null,
): Promise<StoredFlowTask | undefined> {
  const values = [job_id, workerId, newId(), max_concurrency, taskId]
  if (max_concurrency === null) return (await db.run(claimNext, values))[0]
  return db.transaction(async (tx) => {
    await tx.run(lockJob, [job_id])
    // A new statement, so that it sees what the holder of the lock before has claimed.
    return (await tx.run(claimNext, values))[0]
  })
}

/** The next task for a worker that knows these operators. Undefined: there is nothing to do. */
export async function claimFlowTask(
  deps: FlowDeps,
  { orgId, operators, workerId }: Claim & { readonly orgId: string; readonly operators: readonly string[] },
): Promise<StoredFlowTask | undefined> {
  for (const offer of await deps.commands.db.run(listOffers, [orgId, operators])) {
    const task = await claimOffer(deps, offer, workerId, null)
    if (task) return task
  }
  return undefined
}

/** Claims one task for a function or for this process. */
export async function claimFlowTaskById(
  deps: FlowDeps,
  taskId: string,
  workerId: string,
): Promise<StoredFlowTask | undefined> {
  const [offer] = await deps.commands.db.run(findOffer, [taskId])
  const task = offer && (await claimOffer(deps, offer, workerId, taskId))
  await failpoint('flow.claimed')
  return task
}

// Look-ups.

/** $1 task, $2 org. */
const findInOrg = statement<StoredFlowTask>(
  'flow.find_task',
  `select t.* from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.id = $1::uuid and j.org_id = $2::uuid`,
)

export const refuseMissingFlowTask = () => refuse('flow.task.not_found', 'There is no such task.')

export async function findFlowTask(sql: Sql, orgId: string, taskId: string): Promise<Decision<StoredFlowTask>> {
  const [task] = await sql.run(findInOrg, [taskId, orgId])
  return task ? accept(task) : refuseMissingFlowTask()
}
