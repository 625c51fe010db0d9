/**
 * What stands still: a claimed task that no worker starts, an attempt without a heartbeat, a verdict that does not come. Each is a due time of the mission. An
 * attempt of the catalog is a command, which has its own time limits, and a command may wait for a person for days: neither has a lease.
 */
import type { ErrorClass } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { zeroMoney } from '#kernel/money'
import { COMMAND_KIND } from '#domains/commands'
import type { Batch, MissionActor } from './batch.ts'
import { cutSummary } from './cards.ts'
import type { MissionConfig } from './config.ts'
import { decideAttempt } from './decide-attempt.ts'
import type { MissionDeps } from './deps.ts'
import { NOBODY } from './events.ts'
import { listLateTasks } from './mission-task.ts'
import type { StoredTask } from './mission.ts'
import { coordinator } from './plan-rows.ts'
import { BATCH, cascade, type Ended } from './settle.ts'
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
}

/** An attempt of a worker has failed. It is retried while retries are left, if its error is one of the infrastructure. */
export function crash(
  batch: Batch,
  task: StoredTask,
  { by, errorType, errorClass, message }: Crash,
  config: Pick<MissionConfig, 'retry'>,
  at: Date,
): StoredTask {
  const next = decideAttempt({ task, status: 'failed', error_class: errorClass ?? errorType }, config, RUNS_MAX)
  const isAgain = next.kind === 'retry'
  const to = isAgain ? 'awaiting_retry' : 'failed'
  if (by.kind === 'reconciler') noteStall(batch, task, to, at, by)
  const task_crashed = {
    error_type: errorType,
    error_message: message,
    duration_ms: task.started_at === null ? null : Math.max(0, at.getTime() - task.started_at.getTime()),
    final: !isAgain,
    retries_remaining: isAgain ? next.retriesRemaining : 0,
  }
  const due_at = isAgain ? later(at, next.delayMs / 1_000) : null
  const set = { error_message: message, due_at }
  return batch.task(task, to, { by, at, payloads: { task_crashed }, set })
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
  const { verify_seconds } = config.timeouts
  if ((await listLateTasks(db, run.id, now(), verify_seconds, 1)).length === 0) return false
  const traceId = origin.context.trace_id
  await write(deps, run, async (batch, at, tx) => {
    const late = await listLateTasks(tx, run.id, at, verify_seconds, BATCH)
    // Nobody reports what a lost worker has used. Its reservation counts as spent.
    const lost = late.filter(({ state }) => state === 'running')
    const usage = lost.map((task) => ({
      task,
      attempt: task.attempt_number,
      cost: run.account_id === null ? zeroMoney : maxCostOf(task.spec.max_cost, config),
      tokens: 0,
    }))
    await settleUsage(tx, batch, config, usage, { at, traceId })
    const ended: Ended[] = []
    for (const task of late) {
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

function handle(batch: Batch, task: StoredTask, config: MissionConfig, at: Date, traceId: string): StoredTask {
  const by: MissionActor = { id: NOBODY, kind: 'reconciler', traceId }
  switch (task.state) {
    case 'continuing':
      return batch.task(task, 'running', {
        by: { id: NOBODY, kind: 'system', traceId },
        at,
        payloads: { task_resumed: { continuation_count: task.continuation_count } },
        set: { lease_until: later(at, config.timeouts.task_stall_seconds) },
      })
    case 'assigned': {
      const payloads = { stall_detected: stallOf(task, 'queued'), task_queued: { unblocked_by: null } }
      return batch.task(task, 'queued', { by, at, payloads })
    }
    case 'verifying': {
      noteStall(batch, task, 'awaiting_human', at, by)
      const reason = 'No verdict came in time.'
      const payloads = { task_human_review_requested: { reason, score: null } }
      return batch.task(task, 'awaiting_human', {
        by,
        at,
        payloads,
        set: { error_message: reason, review_command_id: null },
      })
    }
    default: {
      const message = cutSummary(`The worker ${task.worker_id ?? ''} sent no heartbeat.`)
      return crash(batch, task, { by, errorType: 'timeout', message }, config, at)
    }
  }
}

export const later = (at: Date, seconds: number) => new Date(at.getTime() + seconds * 1_000)
