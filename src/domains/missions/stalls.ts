/**
 * What stands still: a claimed task that no worker starts, an attempt without a heartbeat, a verdict that does not come. Each is a due time of the mission. An
 * attempt of the catalog is a command, which has its own time limits, and a command may wait for a person for days: neither has a lease.
 */
import { cancelCommand, COMMAND_KIND } from '#domains/commands'
import { bySystem } from '#kernel/actor'
import type { ErrorClass } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { zeroMoney } from '#kernel/money'
import type { Batch, MissionActor } from './batch.ts'
import { cutSummary } from './cards.ts'
import type { MissionConfig } from './config.ts'
import { decideAttempt, decideUnstarted, type FailedEnd, findTimeLimit, leaseOf, sayCrash } from './decide-attempt.ts'
import type { MissionDeps } from './deps.ts'
import { NOBODY } from './events.ts'
import { listLateTasks } from './mission-task.ts'
import type { StoredTask } from './mission.ts'
import { coordinator, systemOf } from './plan-rows.ts'
import { BATCH, cascade, type Ended, toRunning } from './settle.ts'
import { settleUsage } from './spending.ts'
import { type Found, write } from './turn.ts'
import { maxCostOf } from './usage.ts'
import { announceOffers } from './worker-task.ts'

/** The catalog limits the runs of a command. A worker that is lost is replaced within its command. */
const RUNS_MAX = 1_000

export type Crash = {
  readonly by: MissionActor
  /** As the event says it. */
  readonly errorType: string
  /** What decides about a retry. Default: `errorType`. */
  readonly errorClass?: ErrorClass
  readonly message: string
  /** There is no other attempt. */
  readonly isFinal?: boolean
}

/** An attempt of a worker has failed. It is retried while retries are left, if its error is one of the infrastructure. */
export function crash(
  batch: Batch,
  task: StoredTask,
  { by, errorType, errorClass, message, isFinal = false }: Crash,
  config: Pick<MissionConfig, 'retry' | 'timeouts'>,
  at: Date,
): StoredTask {
  const failed = { task, status: 'failed', error_class: errorClass ?? errorType }
  const decided = decideAttempt(failed, config, isFinal ? 1 : RUNS_MAX, at) as FailedEnd
  const to = decided.kind === 'retry' ? 'awaiting_retry' : 'failed'
  if (by.kind === 'reconciler') noteStall(batch, task, to, at, by)
  return batch.task(task, to, { by, at, ...sayCrash(task, { ...decided, errorType }, message, at) })
}

const stallOf = ({ id, state, last_heartbeat_at, updated_at }: StoredTask, action: string) => ({
  entity_type: 'task',
  entity_id: encodeId('mission_task', id),
  stalled_state: state,
  stalled_since: formatInstant(state === 'running' ? (last_heartbeat_at ?? updated_at) : updated_at),
  action_taken: action,
})

/** Says that a task stands still, before anything is done about it. */
function noteStall(batch: Batch, task: StoredTask, action: string, at: Date, by: MissionActor): void {
  batch.note('stall_detected', { by, at, payloads: { stall_detected: stallOf(task, action) } }, task.id)
}

/** The turn of a mission that has late tasks. False: there are none. */
export async function handleLate(deps: MissionDeps, found: Found): Promise<boolean> {
  const { run, origin, config } = found
  const { db, now, wake } = deps.commands
  const { verify_seconds: verify, task_deadline_seconds: deadline } = config.timeouts
  const seen = await listLateTasks(db, run.id, now(), { verify, deadline }, BATCH)
  if (seen.length === 0) return false
  const traceId = origin.context.trace_id
  const cancelled = await cancelLate(deps, found, seen)
  await write(deps, run, async (batch, at, tx) => {
    const late = await listLateTasks(tx, run.id, at, { verify, deadline }, BATCH)
    const open = late.filter(
      ({ id, lease_token, state }) => lease_token !== null || state === 'verifying' || cancelled.has(id),
    )
    const lost = open.filter((task) => task.lease_token !== null && isLost(task, config, at))
    const usage = lost.map((task) => ({
      task,
      attempt: task.attempt_number,
      // Nobody reports what a lost worker has used. Its reservation counts as spent, unless no worker has started.
      cost: run.account_id === null || task.state === 'assigned' ? zeroMoney : maxCostOf(task.spec.max_cost, config),
      tokens: 0,
    }))
    await settleUsage(tx, batch, config, usage, { at, traceId })
    const ended: Ended[] = []
    for (const task of open) {
      const moved = handle(batch, task, config, at, traceId)
      if (moved.state !== 'failed') continue
      ended.push({ id: moved.id, state: 'failed' })
      // Its command still waits for a worker.
      if (task.command_id !== null) await wake({ kind: COMMAND_KIND, id: task.command_id }, { tx })
    }
    await cascade(tx, batch, ended, at, coordinator(traceId))
  })
  await announceOffers(db, run.workspace_id)
  return true
}

/** The commands of tasks of the catalog that are past their deadline are cancelled. One that has ended meanwhile is settled. */
async function cancelLate({ commands }: MissionDeps, { run, origin }: Found, late: readonly StoredTask[]) {
  const cancelled = new Set<string>()
  for (const { id, state, lease_token, command_id: commandId } of late) {
    if (state !== 'running' || lease_token !== null || commandId === null) continue
    const asked = { workspaceId: run.workspace_id, commandId, reason: 'its task is past its deadline' }
    if ((await cancelCommand(commands, bySystem(origin.context.trace_id), asked)).ok) cancelled.add(id)
  }
  return cancelled
}

/** A claim that nobody started is offered again, some times. */
const isOffered = (task: StoredTask, config: MissionConfig, at: Date) =>
  task.state === 'assigned' && findTimeLimit(task, config, at) !== 'deadline' && decideUnstarted(task) === 'offer'

/** The attempt of a worker ends here. A continuation that is due goes on. */
function isLost(task: StoredTask, config: MissionConfig, at: Date): boolean {
  if (task.state === 'continuing') return findTimeLimit(task, config, at) !== 'stall'
  return task.state === 'running' || (task.state === 'assigned' && !isOffered(task, config, at))
}

function handle(batch: Batch, task: StoredTask, config: MissionConfig, at: Date, traceId: string): StoredTask {
  const by: MissionActor = { id: NOBODY, kind: 'reconciler', traceId }
  if (task.state === 'verifying') {
    noteStall(batch, task, 'awaiting_human', at, by)
    const reason = 'No verdict came in time.'
    const payloads = { task_human_review_requested: { reason, score: null } }
    const set = { error_message: reason, review_command_id: null }
    return batch.task(task, 'awaiting_human', { by, at, payloads, set })
  }
  const limit = findTimeLimit(task, config, at)
  if (task.state === 'continuing' && limit === 'stall')
    return batch.task(task, 'running', {
      by: systemOf(traceId),
      at,
      payloads: { task_resumed: { continuation_count: task.continuation_count } },
      set: { lease_until: leaseOf(task, config, at) },
    })
  const isUnstarted = task.state === 'assigned' && limit !== 'deadline'
  if (isOffered(task, config, at)) {
    const payloads = { stall_detected: stallOf(task, 'queued'), task_queued: { unblocked_by: null } }
    return batch.task(task, 'queued', { by, at, payloads, set: { returns: task.returns + 1 } })
  }
  const message = isUnstarted
    ? `It was claimed ${task.returns + 1} times, and no worker started it.`
    : limit === 'stall'
      ? cutSummary(`The worker ${task.worker_id ?? ''} sent no heartbeat.`)
      : limit === 'attempt'
        ? `The attempt took longer than ${config.timeouts.task_attempt_seconds} seconds.`
        : `The task took longer than ${config.timeouts.task_deadline_seconds} seconds.`
  const crashed = { by, errorType: 'timeout', message, isFinal: limit === 'deadline' }
  return crash(batch, toRunning(batch, task, at, traceId), crashed, config, at)
}
