/** The part of a turn that runs tasks: what comes next for a mission that is running. */
import { isHookOpen } from './auxiliary-rows.ts'
import type { MissionDeps } from './deps.ts'
import { dispatch, retryDue } from './dispatch.ts'
import { conclude } from './end-mission.ts'
import { runAfter } from './hooks.ts'
import { listEndedAttempts, listReadyOf, readOpenTasks } from './mission-task.ts'
import { lockMission, setDue } from './mission.ts'
import { coordinator } from './plan-rows.ts'
import { BATCH, settle } from './settle.ts'
import { handleLate } from './stalls.ts'
import { type Found, restUntil, type Taken, write } from './turn.ts'
import { verify } from './verify.ts'

export async function work(deps: MissionDeps, found: Found): Promise<Taken> {
  const { run, config } = found
  const { db, now } = deps.commands
  if ((await listEndedAttempts(db, run.id, 1)).length > 0) return settle(deps, found)
  if (await runAfter(deps, found)) return undefined
  if (run.state_type !== 'running') return restUntil(deps, run, null)
  if (await verify(deps, found)) return undefined
  if ((await listReadyOf(db, run.id, 1)).length > 0) return release(deps, found)
  if (await handleLate(deps, found)) return undefined
  if (await retryDue(deps, found)) return undefined
  if (await dispatch(deps, found)) return undefined
  const rest = await db.transaction(async (tx) => {
    // Under the lock: a worker that claims a task meanwhile brings the turn at the end of its lease forward afterwards.
    await lockMission(tx, run.id)
    const late = { verify: config.timeouts.verify_seconds, deadline: config.timeouts.task_deadline_seconds }
    const isHooked = (config.hooks.before_run || config.hooks.after_run) !== undefined && (await isHookOpen(tx, run.id))
    // What was due waits for its hook, whose end wakes the mission.
    const { isOpen: isLeft, dueAt } = await readOpenTasks(tx, run.id, late, isHooked ? now() : null)
    const isOpen = isLeft || isHooked
    // A time that has come meanwhile is due at once.
    const until = dueAt === null ? null : new Date(Math.max(dueAt.getTime(), now().getTime()))
    if (isOpen) await setDue(tx, run.id, until)
    return { isOpen, until }
  })
  return rest.isOpen ? { t: 'wait', until: rest.until } : conclude(deps, found)
}

/** Tasks that wait for nothing: the first ones of a plan. */
function release(deps: MissionDeps, { run, origin }: Found): Promise<undefined> {
  return write(deps, run, async (batch, at, tx) => {
    const by = coordinator(origin.context.trace_id)
    for (const task of await listReadyOf(tx, run.id, BATCH))
      batch.task(task, 'queued', { by, at, payloads: { task_queued: { unblocked_by: null } } })
  })
}
