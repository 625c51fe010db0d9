/** The end of a mission: completed, failed or cancelled, and then the end of every command that it started. */
import { cancelCommand, COMMAND_KIND } from '#domains/commands'
import { bySystem } from '#kernel/actor'
import { quote } from '#kernel/refusal'
import type { Next } from '#runtime'
import { failpoint, type Tx } from '#store'
import type { Batch, MissionActor } from './batch.ts'
import { cutSummary } from './cards.ts'
import type { MissionDeps } from './deps.ts'
import { NOBODY } from './events.ts'
import { type FailingTask, findCause, listFailingEnds, listLivingTasks, listOpenCommands } from './mission-task.ts'
import { setDue, type StoredMission } from './mission.ts'
import { coordinator } from './plan-rows.ts'
import { reportMission } from './reports.ts'
import { closeBudget } from './spending.ts'
import { type Found, type Origin, restUntil, write } from './turn.ts'

/** Until a report that could not be stored is tried again. */
const REPORT_AGAIN_MS = 60_000

/** A mission succeeds when every essential end task is completed. The verdict is taken when nothing can move any more. */
export function conclude(deps: MissionDeps, { run, origin }: Found): Promise<undefined> {
  return write(deps, run, async (batch, at, tx) => {
    // A person may have added tasks since the turn looked.
    if ((await listLivingTasks(tx, run.id)).length > 0) return
    const [failing] = await listFailingEnds(tx, run.id)
    const { total_cost, total_tokens, tasks_completed, tasks_failed, task_count, started_at } = batch.run
    const by = coordinator(origin.context.trace_id)
    if (failing) {
      const cause = await findCause(tx, failing)
      const reason = cutSummary(sayCause(cause, failing))
      const failed = { reason, failing_task_id: cause.id, total_cost }
      batch.mission('failed', {
        by,
        at,
        payloads: { run_failed: failed },
        set: { error_message: reason, run_after: at },
      })
      return
    }
    const duration_ms = started_at === null ? 0 : Math.max(0, at.getTime() - started_at.getTime())
    const completed = { total_cost, total_tokens, duration_ms, tasks_completed, tasks_failed }
    const result_summary = `${tasks_completed} of ${task_count} tasks completed.`
    batch.mission('completed', {
      by,
      at,
      payloads: { run_completed: completed },
      set: { result_summary, run_after: at },
    })
  })
}

function sayCause(cause: FailingTask, end_: FailingTask): string {
  const why = cause.error_message === null ? '.' : `: ${cause.error_message}`
  const skipped = cause.id === end_.id ? '' : `, so ${quote(end_.title)} is ${end_.state}`
  return `The task ${quote(cause.title)} is ${cause.state}${skipped}${why}`
}

/** Before the plan has started: nothing ran. A person who rejected the plan is named. */
export function end(
  deps: MissionDeps,
  { run, origin }: Pick<Found, 'run' | 'origin'>,
  to: 'failed',
  reason: string,
  decidedBy: string | null,
): Promise<undefined> {
  const traceId = origin.context.trace_id
  const set = { error_message: reason }
  return write(deps, run, async (batch, at, tx) => {
    const failed = { run_failed: { reason, failing_task_id: null, total_cost: batch.run.total_cost } }
    const ended = { ...set, run_after: at }
    if (run.state === 'awaiting_approval') {
      const by: MissionActor = { id: decidedBy ?? NOBODY, kind: 'human', traceId }
      batch.mission(to, { by, at, payloads: { run_rejected: { rejected_by: decidedBy, reason } }, set: ended })
      return
    }
    await cancelTasks(tx, batch, coordinator(traceId), at)
    batch.mission(to, { by: coordinator(traceId), at, payloads: failed, set: ended })
  })
}

async function cancelTasks(tx: Tx, batch: Batch, by: MissionActor, at: Date): Promise<number> {
  const living = await listLivingTasks(tx, batch.run.id)
  const payloads = { task_cancelled: { cancelled_by: by.id === NOBODY ? null : by.id } }
  for (const task of living)
    batch.task(task, 'cancelled', { by, at, payloads, set: { error_message: 'The mission was cancelled.' } })
  return living.length
}

/** Every task that has not ended is cancelled with its mission. Their commands are cancelled afterwards. */
export function cancel(
  deps: MissionDeps,
  { run, origin }: Pick<Found, 'run' | 'origin'>,
  reason = 'The mission was cancelled.',
): Promise<undefined> {
  const person = origin.cancelled_by
  const by: MissionActor = { id: person ?? NOBODY, kind: 'human', traceId: origin.context.trace_id }
  return write(deps, run, async (batch, at, tx) => {
    const remaining = await cancelTasks(tx, batch, by, at)
    const cancelled = { cancelled_by: person, tasks_remaining: remaining }
    const set = { error_message: reason, run_after: at }
    batch.mission('cancelled', { by, at, payloads: { run_cancelled: cancelled }, set })
  })
}

/** The commands of a mission that has ended are cancelled. After the last of them come its report and the end of its own command. */
export async function leave(deps: MissionDeps, run: StoredMission, origin: Origin): Promise<Next> {
  const { commands } = deps
  await failpoint('missions.ended')
  const open = await listOpenCommands(commands.db, run.id)
  for (const { command_id: commandId, cancellation_requested } of open) {
    if (cancellation_requested) continue
    const reason = `its mission is ${run.state}`
    await cancelCommand(commands, bySystem(origin.context.trace_id), {
      workspaceId: run.workspace_id,
      commandId,
      reason,
    })
  }
  const isLeft = open.length > 0 && (await listOpenCommands(commands.db, run.id)).length > 0
  if (isLeft) return restUntil(deps, run, null)
  const traceId = origin.context.trace_id
  const isCounted = run.account_id === null && open.length === 0 && !origin.has_auxiliary
  const closed = isCounted ? run : await closeBudget(commands.db, run, { at: commands.now(), traceId })
  const isReported = await reportMission(deps, closed, traceId)
  const until = isReported ? null : new Date(commands.now().getTime() + REPORT_AGAIN_MS)
  await commands.db.transaction(async (tx) => {
    await setDue(tx, run.id, until)
    await commands.wake({ kind: COMMAND_KIND, id: origin.command_id }, { tx })
  })
  return until === null ? { t: 'done' } : { t: 'wait', until }
}
