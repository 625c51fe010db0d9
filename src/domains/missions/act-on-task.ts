/** What people do with a task of a mission: cancel it, have its next attempt begin at once, decide about its output. */
import type { DecisionValue } from '#domains/approvals'
import { cancelCommand } from '#domains/commands'
import type { Principal } from '#kernel/actor'
import { accept, type Decision, refuse, type Refusal } from '#kernel/refusal'
import type { Sql } from '#store'
import {
  actOn,
  checkActor,
  decideAsked,
  type DecidingDeps,
  type MissionPerson,
  type OfMission,
  recorded,
  refuseNoMission,
} from './act-on-mission.ts'
import { toMissionTaskView } from './contract.ts'
import type { MissionDeps } from './deps.ts'
import { findSubmitted, findTaskOf } from './mission-task.ts'
import { findMission, type StoredMission, type StoredTask } from './mission.ts'
import { coordinator } from './plan-rows.ts'
import { cascade } from './settle.ts'

export type OfTask = OfMission & { readonly taskId: string }

const refuseTask = () => refuse('missions.task.not_found', 'The mission has no such task.')

/** The fresh row is in the facts: who loses a race knows what the task is now. */
const refuseState = (task: StoredTask, reason: string, to: string): Refusal =>
  refuse('missions.task.wrong_state', reason, {
    facts: { state: task.state, from: task.state, to, task: toMissionTaskView(task) },
  })

export async function findTaskWithRun(
  sql: Sql,
  { workspaceId, missionId, taskId }: OfTask,
): Promise<Decision<{ readonly run: StoredMission; readonly task: StoredTask }>> {
  const run = await findMission(sql, workspaceId, missionId)
  if (!run) return refuseNoMission()
  const task = await findTaskOf(sql, missionId, taskId)
  return task ? accept({ run, task }) : refuseTask()
}

/**
 * Its commands are cancelled first, in the name of the person: after a crash in between the turn of the mission settles the cancelled command. What depends
 * on the task is skipped or released, as its rule says.
 */
export async function cancelTask(
  deps: MissionDeps,
  person: MissionPerson,
  { reason, ...asked }: OfTask & { readonly reason?: string | undefined },
): Promise<Decision<StoredTask>> {
  const { workspaceId, missionId, taskId } = asked
  const stopped = new Set<string | null>([null])
  for (let isFirst = true; ; isFirst = false) {
    const found = await findTaskWithRun(deps.commands.db, asked)
    if (!found.ok) return found
    const { run, task: seen } = found.value
    const allowed = checkActor(person, run)
    if (!allowed.ok) return allowed
    if (isFirst && seen.state_type === 'terminal') return refuseState(seen, `The task is ${seen.state}.`, 'cancelled')
    for (const commandId of [...(await sentFor(deps.commands.db, seen)), seen.review_command_id]) {
      if (commandId === null || stopped.has(commandId)) continue
      stopped.add(commandId)
      const cancelled = await cancelCommand(deps.commands, person, { workspaceId, commandId, reason })
      // The end of a running attempt counts. In every other state it is settled already.
      if (cancelled.ok || seen.state_type !== 'running') continue
      if (cancelled.code === 'commands.action.not_allowed') return cancelled
      return refuseState(seen, `The attempt of the task has ended: ${cancelled.reason}`, 'cancelled')
    }
    const done = await actOn<StoredTask | null>(deps, person, asked, async ({ batch, at, by, tx }) => {
      const task = await findTaskOf(tx, missionId, taskId)
      if (!task) return refuseTask()
      // A turn has submitted another attempt since the task was read, or died before the task had it: that one is cancelled first.
      if ((await sentFor(tx, task)).some((id) => !stopped.has(id))) return accept(null)
      // The turn may have settled the command that was cancelled here.
      if (task.state === 'cancelled') return accept(task)
      if (task.state_type === 'terminal') return refuseState(task, `The task is ${task.state}.`, 'cancelled')
      const set = { error_message: recorded(reason) ?? 'A person cancelled the task.' }
      const payloads = { task_cancelled: { cancelled_by: by.id } }
      const cancelled = batch.task(task, 'cancelled', { by, at, payloads, set })
      await cascade(tx, batch, [{ id: task.id, state: 'cancelled' }], at, coordinator(by.traceId))
      return accept(cancelled)
    })
    if (!done.ok) return done
    if (done.value) return accept(done.value)
  }
}

/** The commands of its attempt, also one that a turn has submitted and not begun. */
const sentFor = async (sql: Sql, { id, command_id }: StoredTask): Promise<readonly (string | null)[]> => [
  command_id,
  ...(await findSubmitted(sql, [id])).values(),
]

/** The next attempt of a task that waits for it begins at once. A task that has ended does not run again: no move leaves an end. */
export const retryTask = (deps: MissionDeps, person: MissionPerson, { taskId, ...asked }: OfTask) =>
  actOn(deps, person, asked, async ({ batch, at, tx }): Promise<Decision<StoredTask>> => {
    const task = await findTaskOf(tx, asked.missionId, taskId)
    if (!task) return refuseTask()
    if (task.state !== 'awaiting_retry') {
      const isOver = task.state_type === 'terminal'
      const reason = isOver
        ? `The task is ${task.state}, and a task that has ended does not run again.`
        : `The task is ${task.state}, and waits for no other attempt.`
      const hint = 'A fork of the mission from this task, or another mission, runs it again.'
      return { ...refuseState(task, reason, 'assigned'), ...(isOver && { hint }) }
    }
    const due = { ...task, due_at: task.due_at !== null && task.due_at < at ? task.due_at : at }
    batch.put(due)
    return accept(due)
  })

/** Decides about the output that a person is asked about. The next turn moves the task. */
export async function decideOutput(
  deps: DecidingDeps,
  principal: Principal,
  traceId: string,
  { decision, reason, ...asked }: OfTask & { readonly decision: DecisionValue; readonly reason?: string | undefined },
): Promise<Decision<StoredTask>> {
  const { db } = deps.commands
  const found = await findTaskWithRun(db, asked)
  if (!found.ok) return found
  const { task } = found.value
  const { workspaceId, missionId, taskId } = asked
  const commandId = task.state === 'awaiting_human' ? task.review_command_id : null
  const decided =
    commandId === null
      ? undefined
      : await decideAsked(deps, principal, traceId, { workspaceId, commandId, decision, reason })
  if (!decided)
    return refuseState(task, `The task is ${task.state}, and nobody is asked about its output.`, 'completed')
  return decided.ok ? accept((await findTaskOf(db, missionId, taskId)) ?? task) : decided
}
