/**
 * Runs the tasks of the runtimes `dispatcher` and `lambda`. A task is a process: a wake brings its turn, the claim decides, and the operator runs in this process
 * under heartbeats, or a function is called with everything it needs and reports back as workers do. A governed command as a step is followed, not waited for.
 */
import { actingFor, readCommand, submitCommand } from '#domains/commands'
import { findMember, platformRoles } from '#domains/identity'
import type { Actor } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import type { Drive, Next } from '#runtime'
import { failpoint, statement } from '#store'
import type { StoredFlowJob } from './dag.ts'
import { LEASE_SECONDS } from './decide-flow.ts'
import { completeFlowTask, failFlowTask, keepFlowTask, type TaskHolder } from './end-task.ts'
import { FLOW_QUEUE, type FlowDeps, TASK_KIND } from './deps.ts'
import type { OperatorCall } from './operator.ts'
import { COMMAND_OPERATOR } from './operators.ts'
import { readPayloadRow, toTaskPayload } from './payload.ts'
import { claimFlowTaskById, type StoredFlowTask } from './task.ts'

const WORKER = 'dispatcher'
const done: Next = { t: 'done' }
/** A task of a job that is full looks again; the end of another task of it wakes it sooner. */
const FULL_MS = 2_000

type Found = {
  readonly task: StoredFlowTask
  readonly job: StoredFlowJob
  readonly workspace_id: string
  /** The command that deployed the version. */
  readonly deployed_by: string | null
}

/** $1 task. */
const findJob = statement<StoredFlowJob & Pick<Found, 'workspace_id' | 'deployed_by'>>(
  'flow.find_job_of_task',
  `select j.*, v.workspace_id, v.command_id as deployed_by from flow.tasks as t join flow.jobs as j on j.id = t.job_id join flow.dag_versions as v on v.id = j.dag_version_id where t.id = $1::uuid`,
)
/** $1 task. */
const findById = statement<StoredFlowTask>('flow.find_task_by_id', `select * from flow.tasks where id = $1::uuid`)
/** $1 job. */
const findNext = statement<{ readonly id: string }>(
  'flow.find_next_queued',
  `select id from flow.tasks where job_id = $1::uuid and status = 'Queued' order by created_at, id limit 1`,
)

export function openTaskDrive(deps: FlowDeps): Drive {
  return async (id) => {
    const { db, now } = deps.commands
    const [task] = await db.run(findById, [id])
    const [row] = task ? await db.run(findJob, [id]) : []
    if (!task || !row) return done
    const { workspace_id, deployed_by, ...job } = row
    if (task.status === 'Running' && task.command_id !== null)
      return follow(deps, { task, job, workspace_id, deployed_by })
    // A task whose worker died is found by the reaper when its lease has expired.
    if (task.status !== 'Queued' || (job.runtime !== 'dispatcher' && job.runtime !== 'lambda')) return done
    const claimed = await claimFlowTaskById(deps, id, WORKER)
    if (!claimed) {
      const [still] = await db.run(findById, [id])
      return still?.status === 'Queued' ? { t: 'wait', until: new Date(now().getTime() + FULL_MS) } : done
    }
    const found = { task: claimed, job, workspace_id, deployed_by }
    const next = await (job.runtime === 'lambda' ? callFunction(deps, found) : runHere(deps, found))
    await wakeNext(deps, job)
    return next
  }
}

/** A place of a job with a limit is free again. */
async function wakeNext({ commands: { db }, runtime }: FlowDeps, job: StoredFlowJob): Promise<void> {
  const [next] = job.scaling === null ? [] : await db.run(findNext, [job.id])
  if (next) await runtime.wake({ kind: TASK_KIND, id: next.id }, { queue: FLOW_QUEUE })
}

const holderOf = ({ task, job }: Found): TaskHolder => ({
  orgId: job.org_id,
  taskId: task.id,
  leaseToken: task.lease_token ?? '',
  attempt: task.attempt,
})

async function callFunction(deps: FlowDeps, found: Found): Promise<Next> {
  const url = deps.operators.get(found.job.operator)?.url
  const payload = toTaskPayload(found.task, await readPayloadRow(deps.commands.db, found.task.id))
  try {
    if (url === undefined || !deps.callFunction) throw new Error(`The operator ${found.job.operator} has no address.`)
    await deps.callFunction(url, payload, deps.stopping ?? new AbortController().signal)
  } catch (error) {
    await failFlowTask(deps, { ...holderOf(found), message: textOf(error), errorClass: 'transient_connector_error' })
  }
  return done
}

async function runHere(deps: FlowDeps, found: Found): Promise<Next> {
  const { task, job } = found
  const operator = deps.operators.get(job.operator)
  const holder = holderOf(found)
  if (job.operator === COMMAND_OPERATOR) return begin(deps, found)
  const row = await readPayloadRow(deps.commands.db, task.id)
  const config = operator?.config.safeParse(job.config)
  if (!operator?.do || !config?.success) {
    await failFlowTask(deps, {
      ...holder,
      message: `The operator ${job.operator} cannot run this job here.`,
      errorClass: 'validation_error',
    })
    return done
  }
  const lost = new AbortController()
  const signal = AbortSignal.any([lost.signal, ...(deps.stopping ? [deps.stopping] : [])])
  const everyMs = ((job.heartbeat_timeout_seconds ?? LEASE_SECONDS) * 1_000) / 3
  const stop = deps.keepAlive(everyMs, async () => {
    const kept = await keepFlowTask(deps, { ...holder, isDraining: deps.stopping?.aborted ?? false })
    if (!kept.ok) lost.abort(new Error(kept.reason))
  })
  try {
    const { job: shown, ...payload } = toTaskPayload(task, row)
    const call: OperatorCall<unknown> = {
      ...payload,
      job: shown,
      config: config.data,
      orgId: job.org_id,
      signal,
      row,
      data: deps.data,
    }
    const { outputs = [], state } = await operator.do(call as OperatorCall<never>)
    await failpoint('flow.operator_done')
    const ended = await completeFlowTask(deps, { ...holder, outputs, state })
    // A result that does not fit is a failure of the operator; a lost lease needs no report.
    if (!ended.ok && ended.code !== 'lease.lost')
      await failFlowTask(deps, { ...holder, message: ended.reason, errorClass: 'validation_error' })
  } catch (error) {
    await failFlowTask(deps, { ...holder, message: textOf(error) })
  } finally {
    await stop()
  }
  return done
}

const textOf = (error: unknown) => redactText(error instanceof Error ? error.message : String(error))

// A governed command as a step.

/** $1 task, $2 token, $3 command. The command has its own limits and is durable, so the lease is long; a time limit of the job still holds. */
const bindCommand = statement(
  'flow.bind_command',
  `update flow.tasks as t set command_id = $3::uuid, lease_expires_at = coalesce(t.started_at + j.timeout_seconds * interval '1 second', statement_timestamp() + interval '366 days')
from flow.jobs as j where t.id = $1::uuid and t.lease_token = $2::uuid and t.status = 'Running' and j.id = t.job_id`,
)

/** The key is that of the attempt: a process that dies between the submission and its record finds the command again. */
async function begin(deps: FlowDeps, found: Found): Promise<Next> {
  const { task, job, workspace_id: workspaceId } = found
  const { task: taskName, payload = {} } = job.config as { readonly task: string; readonly payload?: JsonObject }
  const partitions = task.partitions ?? []
  const by = await actAsDeployer(deps, found)
  const submitted = !by.ok
    ? by
    : await submitCommand(deps.commands, by.value, {
        workspaceId,
        taskName,
        payload: { ...payload, ...(job.config['with_partitions'] === true && { partitions: [...partitions] }) },
        idempotencyKey: `flow:${encodeId('flow_task', task.id)}:${task.attempt}`,
        ingress: 'system_event',
        requestId: `req_${task.id.replaceAll('-', '')}`,
        follower: { kind: TASK_KIND, id: task.id },
      })
  if (!submitted.ok) {
    await failFlowTask(deps, { ...holderOf(found), message: submitted.reason, errorClass: 'validation_error' })
    return done
  }
  const { command_id } = submitted.value.command
  await deps.commands.db.run(bindCommand, [task.id, task.lease_token, command_id])
  return follow(deps, { ...found, task: { ...task, command_id } })
}

/** With the rights that the person who deployed the DAG has today, and never more than at the deployment. */
async function actAsDeployer(
  { commands: { db } }: FlowDeps,
  { task, workspace_id, deployed_by }: Found,
): Promise<Decision<Actor>> {
  const traceId = `trace_${task.id.replaceAll('-', '')}`
  const read = deployed_by === null ? undefined : await readCommand(db, workspace_id, deployed_by)
  const deployment = read?.ok ? read.value.command : undefined
  const requested_by = deployment?.requested_by ?? 'system'
  if (!requested_by.startsWith('user:')) return accept({ id: 'system', kind: 'system', traceId })
  const roleMax = platformRoles.find((role) => role === deployment?.context.metadata['role'])
  const member =
    roleMax &&
    (await findMember(db, { userId: requested_by.slice('user:'.length), workspaceId: workspace_id, roleMax }))
  return member
    ? accept(actingFor(member, traceId))
    : refuse('workspace_unknown', 'The person who deployed the DAG may no longer act in its workspace.')
}

/** The end of the command, or its wait for people, wakes the task. */
async function follow(deps: FlowDeps, found: Found): Promise<Next> {
  const { task, workspace_id } = found
  const read = await readCommand(deps.commands.db, workspace_id, task.command_id ?? '')
  if (!read.ok) throw new Error(read.reason)
  const { completed_at, status } = read.value.command
  if (completed_at === null) return { t: 'wait', until: null }
  const outputs = (found.job.output_datasets ?? []).map((_, index) => ({ index, partitions: task.partitions ?? [] }))
  if (status === 'succeeded') await completeFlowTask(deps, { ...holderOf(found), outputs })
  else
    await failFlowTask(deps, {
      ...holderOf(found),
      message: `Its command ended as ${status}.`,
      errorClass: 'policy_denied',
    })
  await wakeNext(deps, found.job)
  return done
}
