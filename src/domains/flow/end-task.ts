/** How tasks go on and end: the calls of their holder, the sweeps, and what people do. A call needs the token and the attempt that are on the row. */
import type { FailureClass } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { failpoint, type Sql, statement } from '#store'
import { decideRetryDelay, type OutputReport } from './decide-flow.ts'
import { type FlowDeps, FLOW_OFFERS_CHANNEL, OUTBOX_CHANNEL } from './deps.ts'
import {
  findFlowTask,
  leaseUntil,
  lineageOf,
  moveSql,
  NOW,
  refuseMissingFlowTask,
  type StoredFlowTask,
} from './task.ts'

// Calls of the holder.

export type TaskHolder = {
  readonly orgId: string
  readonly taskId: string
  readonly leaseToken: string
  readonly attempt: number
}

const held = `t.id = $1::uuid and t.lease_token = $2::uuid and t.attempt = $3::int and t.status = 'Running' and j.id = t.job_id and j.org_id = $4::uuid`
const valuesOf = ({ taskId, leaseToken, attempt, orgId }: TaskHolder) => [taskId, leaseToken, attempt, orgId]

const factsOf = ({ id, status, attempt, lease_expires_at }: StoredFlowTask) => ({
  task_id: encodeId('flow_task', id),
  status,
  attempt,
  lease_expires_at: lease_expires_at?.toISOString() ?? null,
})

function refuseStale(task: StoredFlowTask, { attempt }: TaskHolder): Refusal {
  const isOver = task.status === 'Completed' || task.status === 'Canceled'
  const reason = isOver
    ? `The task is ${task.status}.`
    : task.attempt === attempt
      ? 'The lease is not held with this token.'
      : `Attempt ${task.attempt} has it now.`
  const hint = isOver ? 'Stop the work. The task needs no result.' : 'Stop the work; claim again.'
  return refuse('lease.lost', reason, { hint, facts: factsOf(task) })
}

/** Explains why a call of a holder wrote nothing. A call that is repeated gets its first answer. */
async function settle(
  sql: Sql,
  holder: TaskHolder,
  isRepeat: (task: StoredFlowTask) => boolean,
): Promise<Decision<StoredFlowTask>> {
  const found = await findFlowTask(sql, holder.orgId, holder.taskId)
  if (!found.ok) return found
  const { value: task } = found
  const isOwn = task.lease_token === holder.leaseToken && task.attempt === holder.attempt
  return isOwn && isRepeat(task) ? found : refuseStale(task, holder)
}

/** A worker that drains reports so with its heartbeat; the completion overwrites the mark. $5 draining. */
const beat = statement<StoredFlowTask>(
  'flow.heartbeat',
  `update flow.tasks as t set last_heartbeat = ${NOW}, lease_expires_at = ${leaseUntil('t.started_at')},
  outputs = case when $5::boolean then '[{"draining": true}]'::jsonb else t.outputs end
from flow.jobs as j where ${held} returning t.*`,
)

export async function keepFlowTask(
  { commands: { db } }: FlowDeps,
  { isDraining = false, ...holder }: TaskHolder & { readonly isDraining?: boolean },
): Promise<Decision<StoredFlowTask>> {
  const [task] = await db.run(beat, [...valuesOf(holder), isDraining])
  await failpoint('flow.heartbeat')
  return task ? accept(task) : settle(db, holder, () => false)
}

/**
 * $5 outputs, $6 a row per output, $7 a row per partition, $8 state or null. Everything that a completion changes: the task, its partitions with their
 * generation, the state of the operator, one event per output, and the end of the run for lineage.
 */
const complete = statement<StoredFlowTask>(
  'flow.complete',
  `with done as (
  update flow.tasks as t set ${moveSql(['Running'], 'Completed')}, outputs = $5::jsonb, error_message = null
  from flow.jobs as j where ${held} returning t.*
), job as (
  select j.* from flow.jobs as j join done as d on d.job_id = j.id
), made as (
  insert into flow.dataset_partitions as p (dataset_version, partition_key, materialized_at, generation, task_id, rows, metrics)
  select j.output_versions[k.index + 1], k.key, ${NOW}, 1, d.id, k.rows, k.metrics
  from done as d cross join job as j cross join jsonb_to_recordset($7::jsonb) as k(index int, key text, rows bigint, metrics jsonb)
  order by 1, 2
  on conflict (dataset_version, partition_key) do update
    set materialized_at = excluded.materialized_at, generation = p.generation + 1, task_id = excluded.task_id, rows = excluded.rows, metrics = excluded.metrics
  returning dataset_version, partition_key, generation, materialized_at
), kept as (
  insert into flow.operator_state as s (org_id, job_id, state)
  select j.org_id, j.id, $8::jsonb from job as j where $8::jsonb is not null
  on conflict (org_id, job_id, state_key) do update set state = excluded.state, updated_at = ${NOW}
), routed as (
  insert into flow.outbox (kind, payload)
  select 'route_event', jsonb_build_object('task_id', d.id, 'attempt', d.attempt, 'dataset_uuid', j.output_datasets[o.index + 1], 'dataset_version', j.output_versions[o.index + 1],
    'cursor', coalesce(o.cursor, d.id::text), 'partitions', coalesce((select jsonb_agg(jsonb_build_object('key', m.partition_key, 'generation', m.generation, 'at', m.materialized_at) order by m.partition_key)
      from made as m where m.dataset_version = j.output_versions[o.index + 1]), '[]'))
  from done as d cross join job as j cross join jsonb_to_recordset($6::jsonb) as o(index int, cursor text)
), ended as (${lineageOf('done', "'COMPLETE'")})
select * from done`,
)

/** $1 task, $2 org. */
const countOutputs = statement<{ readonly outputs: number }>(
  'flow.count_outputs',
  `select cardinality(j.output_versions) as outputs from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.id = $1::uuid and j.org_id = $2::uuid`,
)

type Completion = TaskHolder & {
  readonly outputs?: readonly OutputReport[]
  readonly state?: JsonObject | undefined
}

export async function completeFlowTask(
  deps: FlowDeps,
  { outputs = [], state, ...holder }: Completion,
): Promise<Decision<StoredFlowTask>> {
  const { db } = deps.commands
  const [known] = await db.run(countOutputs, [holder.taskId, holder.orgId])
  const wrong = known && checkOutputs(outputs, known.outputs)
  if (wrong) return wrong
  const events = outputs.map(({ index, cursor }) => ({ index, cursor: cursor ?? null }))
  const partitions = outputs.flatMap(({ index, partitions: keys = [], rows, metrics }) =>
    [...new Set(keys)].map((key) => ({ index, key, rows: rows ?? metricOf(metrics), metrics: metrics ?? {} })),
  )
  const json = (value: unknown) => JSON.stringify(value)
  const values = [json(outputs), json(events), json(partitions), state === undefined ? null : json(state)]
  const [task] = await db.run(complete, [...valuesOf(holder), ...values])
  await failpoint('flow.completed')
  if (!task) return settle(db, holder, ({ status }) => status === 'Completed')
  deps.announce(OUTBOX_CHANNEL)
  deps.announce(FLOW_OFFERS_CHANNEL)
  return accept(task)
}

const metricOf = (metrics: JsonObject | undefined): number | null => {
  const rows: JsonValue | undefined = metrics?.['rows']
  return typeof rows === 'number' && Number.isSafeInteger(rows) ? rows : null
}

function checkOutputs(outputs: readonly OutputReport[], count: number): Refusal | undefined {
  const seen = new Set<number>()
  for (const [at, { index, partitions = [] }] of outputs.entries()) {
    if (index < 0 || index >= count) {
      const hint = count === 0 ? 'This job has no outputs.' : `Its outputs are 0 to ${count - 1}.`
      return refuse('flow.output.unknown', `The task has no output ${index}.`, { path: `outputs[${at}].index`, hint })
    }
    if (seen.has(index))
      return refuse('flow.output.twice', `The output ${index} is reported twice.`, { path: `outputs[${at}].index` })
    const empty = partitions.indexOf('')
    if (empty >= 0)
      return refuse('flow.partition.empty', 'A partition has no key.', { path: `outputs[${at}].partitions[${empty}]` })
    seen.add(index)
  }
  return undefined
}

/** $1 ids, $2 tokens, $3 attempts, $4 delays in ms or null, $5 messages, $6 only if the lease has expired. */
const failTasks = statement<StoredFlowTask>(
  'flow.fail',
  `with failed as (
  update flow.tasks as t set ${moveSql(['Running'], 'Failed')}, error_message = f.message, next_retry_at = ${NOW} + f.delay_ms * interval '1 millisecond'
  from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::text[]) as f(id, token, attempt, delay_ms, message)
  where t.id = f.id and t.lease_token = f.token and t.attempt = f.attempt and t.status = 'Running' and (not $6::boolean or t.lease_expires_at <= ${NOW})
  returning t.*
), ended as (${lineageOf('failed', "'FAIL'")})
select * from failed`,
)

/** $1 task, $2 org. */
const findLimit = statement<{ readonly max_attempts: number | null }>(
  'flow.find_limit',
  `select j.max_attempts from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.id = $1::uuid and j.org_id = $2::uuid`,
)

const MESSAGE_CHARS_MAX = 4_000
// Postgres stores no NUL.
const messageOf = (text: string) => text.replaceAll('\0', '').slice(0, MESSAGE_CHARS_MAX)

type Failing = TaskHolder & { readonly message: string; readonly errorClass?: FailureClass | undefined }

export async function failFlowTask(
  deps: FlowDeps,
  { message, errorClass = 'work_failed', ...holder }: Failing,
): Promise<Decision<StoredFlowTask>> {
  const { db } = deps.commands
  const { taskId, orgId, leaseToken, attempt } = holder
  const [limit] = await db.run(findLimit, [taskId, orgId])
  if (!limit) return refuseMissingFlowTask()
  const delay = decideRetryDelay({ attempt, maxAttempts: limit.max_attempts }, errorClass, deps.random)
  const [task] = await db.run(failTasks, [[taskId], [leaseToken], [attempt], [delay], [messageOf(message)], false])
  await failpoint('flow.failed')
  if (!task) return settle(db, holder, ({ status }) => status === 'Failed')
  deps.announce(OUTBOX_CHANNEL)
  deps.announce(FLOW_OFFERS_CHANNEL)
  return accept(task)
}

// Sweeps. Each is safe in any number of processes.

type Expired = Pick<StoredFlowTask, 'id' | 'lease_token' | 'attempt'> & {
  readonly max_attempts: number | null
  readonly is_timeout: boolean
}

const listExpired = statement<Expired>(
  'flow.list_expired',
  `select t.id, t.lease_token, t.attempt, j.max_attempts, coalesce(t.started_at + j.timeout_seconds * interval '1 second' <= ${NOW}, false) as is_timeout
from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.status = 'Running' and t.lease_expires_at <= ${NOW} order by t.lease_expires_at limit 200`,
)

/** Fails the tasks whose lease or time limit has expired, and plans their retry. Returns how many. */
export async function reapTasks(deps: FlowDeps): Promise<number> {
  const { db } = deps.commands
  const expired = await db.run(listExpired)
  if (expired.length === 0) return 0
  const delays = expired.map(({ attempt, max_attempts }) =>
    decideRetryDelay({ attempt, maxAttempts: max_attempts }, 'timeout', deps.random),
  )
  const messages = expired.map(({ is_timeout }) =>
    is_timeout ? 'The time limit of the attempt has passed.' : 'The lease expired without a heartbeat.',
  )
  const tokens = [expired.map(({ id }) => id), expired.map(({ lease_token }) => lease_token)]
  const failed = await db.run(failTasks, [...tokens, expired.map(({ attempt }) => attempt), delays, messages, true])
  await failpoint('flow.reaped')
  if (failed.length > 0) deps.announce(OUTBOX_CHANNEL)
  return failed.length
}

const requeue = statement<{ readonly id: string }>(
  'flow.requeue',
  `with due as materialized (
  select id from flow.tasks where status = 'Failed' and next_retry_at <= ${NOW} order by next_retry_at limit 500 for update skip locked
), moved as (
  update flow.tasks as t set ${moveSql(['Failed'], 'Queued')}, attempt = t.attempt + 1, command_id = null, outputs = null
  from due where t.id = due.id returning t.id, t.attempt
), queued as (
  insert into flow.outbox (kind, payload) select 'enqueue_task', jsonb_build_object('task_id', id, 'attempt', attempt) from moved
)
select id from moved`,
)

/** Queues the failed tasks whose retry is due, as their next attempt. Returns how many. */
export async function requeueTasks(deps: FlowDeps): Promise<number> {
  const moved = await deps.commands.db.run(requeue)
  if (moved.length === 0) return 0
  await failpoint('flow.requeued')
  deps.announce(OUTBOX_CHANNEL)
  return moved.length
}

// Operators.

/** $1 task, $2 org. */
const cancel = statement<StoredFlowTask>(
  'flow.cancel',
  `with old as materialized (
  select t.id, t.status from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.id = $1::uuid and j.org_id = $2::uuid for update of t
), canceled as (
  update flow.tasks as t set ${moveSql(['Queued', 'Running', 'Failed'], 'Canceled')} from old
  where t.id = old.id and (old.status in ('Queued', 'Running') or (old.status = 'Failed' and t.next_retry_at is not null)) returning t.*
), running as (
  select c.id, c.attempt from canceled as c join old as o on o.id = c.id and o.status = 'Running'
), ended as (${lineageOf('running', "'ABORT'")})
select * from canceled`,
)

/** Cancels a task that has not ended. The token of a running one becomes invalid. Canceling twice gives the first answer. */
export async function cancelFlowTask(deps: FlowDeps, orgId: string, taskId: string): Promise<Decision<StoredFlowTask>> {
  const { db } = deps.commands
  const [task] = await db.run(cancel, [taskId, orgId])
  if (task) {
    deps.announce(OUTBOX_CHANNEL)
    return accept(task)
  }
  const found = await findFlowTask(db, orgId, taskId)
  return !found.ok || found.value.status === 'Canceled' ? found : refuseState(found.value)
}

/** $1 task, $2 org. */
const bringForward = statement<StoredFlowTask>(
  'flow.retry_now',
  `update flow.tasks as t set next_retry_at = ${NOW},
  caused_by = coalesce(t.caused_by, '{}') || jsonb_build_object('retried_by_hand', coalesce((t.caused_by->>'retried_by_hand')::int, 0) + 1) from flow.jobs as j
where t.id = $1::uuid and j.id = t.job_id and j.org_id = $2::uuid and t.status = 'Failed' returning t.*`,
)

/** The next attempt of a failed task begins at once, also if none was left. */
export async function retryFlowTask(deps: FlowDeps, orgId: string, taskId: string): Promise<Decision<StoredFlowTask>> {
  const { db } = deps.commands
  const [task] = await db.run(bringForward, [taskId, orgId])
  if (!task) {
    const found = await findFlowTask(db, orgId, taskId)
    return found.ok ? refuseState(found.value) : found
  }
  await requeueTasks(deps)
  return findFlowTask(db, orgId, taskId)
}

const refuseState = (task: StoredFlowTask) =>
  refuse('flow.task.wrong_state', `The task is ${task.status}.`, { facts: factsOf(task) })
