/**
 * What people do with a mission: pause, resume, cancel, approve and reject. A move of a person is one transaction under the lock of the mission; of several
 * at once one wins, and the others get the fresh row. A cancel is that of the command, and a decision is that of the inbox.
 */
import { type ApprovalDeps, decideApproval, type DecisionValue, findPending, listApprovals } from '#domains/approvals'
import { cancelCommand } from '#domains/commands'
import { findOrigins } from '#domains/identity'
import { type Actor, byPerson, type Principal } from '#kernel/actor'
import { cutText } from '#kernel/cut-text'
import type { MissionRunState } from '#kernel/machines/mission'
import { accept, type Decision, refuse, type Refusal } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import type { Tx } from '#store'
import { Batch, type MissionActor, type MissionMove, moveMission } from './batch.ts'
import { toMissionView } from './contract.ts'
import { MISSION_KIND, MISSION_QUEUE, type MissionDeps } from './deps.ts'
import { cancel } from './end-mission.ts'
import { findMission, lockMission, setDue, type StoredMission } from './mission.ts'
import { findOrigin } from './turn.ts'

/** A person. */
export type MissionPerson = Actor & { readonly principal: Principal }
export type OfMission = { readonly workspaceId: string; readonly missionId: string }
type WithReason = OfMission & { readonly reason?: string | undefined }

const REASON_MAX = 500
export const recorded = (reason: string | undefined) =>
  reason === undefined ? null : cutText(redactText(reason), REASON_MAX)

export const refuseNoMission = () => refuse('missions.mission.not_found', 'There is no such mission.')

/** The fresh row is in the facts: who loses a race knows what the mission is now. */
export const refuseState = (run: StoredMission, reason: string, to?: string): Refusal =>
  refuse('missions.mission.wrong_state', reason, {
    facts: { from: run.state, ...(to !== undefined && { to }), mission: toMissionView(run) },
  })

/** The requester and administrators, and no agent that has their rights. */
export function checkActor(
  { id, principal }: MissionPerson,
  { created_by }: Pick<StoredMission, 'created_by'>,
): Decision<null> {
  if (!principal.agent && (id === created_by || principal.role === 'admin')) return accept(null)
  return refuse('missions.action.not_allowed', 'Only the requester of the mission and administrators may do this.')
}

const asHuman = ({ id, traceId }: MissionPerson): MissionActor => ({ id, kind: 'human', traceId })

export type Acting = { readonly batch: Batch; readonly at: Date; readonly by: MissionActor; readonly tx: Tx }

/** One transaction of a person under the lock of the mission. The next turn continues with what it wrote. */
export function actOn<T>(
  { commands }: MissionDeps,
  person: MissionPerson,
  { workspaceId, missionId }: OfMission,
  work: (acting: Acting) => Decision<T> | Promise<Decision<T>>,
): Promise<Decision<T>> {
  return commands.db.transaction(async (tx): Promise<Decision<T>> => {
    const found = await findMission(tx, workspaceId, missionId)
    const run = found && (await lockMission(tx, missionId))
    if (!run) return refuseNoMission()
    const allowed = checkActor(person, run)
    if (!allowed.ok) return allowed
    const at = commands.now()
    const batch = new Batch(run)
    const done = await work({ batch, at, by: asHuman(person), tx })
    if (!done.ok) return done
    await batch.commit(tx)
    await setDue(tx, missionId, at)
    await commands.wake({ kind: MISSION_KIND, id: missionId }, { tx, queue: MISSION_QUEUE })
    return done
  })
}

const moveBy =
  (to: MissionRunState, payloads: (by: string) => MissionMove<StoredMission>['payloads']) =>
  ({ batch, at, by }: Acting): Decision<StoredMission> => {
    const moving = { by, at, payloads: payloads(by.id) ?? {} }
    const legal = moveMission(batch.run, to, moving)
    if (!legal.ok) return refuseState(batch.run, `The mission is ${batch.run.state}.`, to)
    batch.mission(to, moving)
    return accept(batch.run)
  }

/** Nothing new starts. What runs may end, and is settled after the resume. */
export const pauseMission = (deps: MissionDeps, person: MissionPerson, { reason, ...asked }: WithReason) =>
  actOn(
    deps,
    person,
    asked,
    moveBy('paused', (by) => ({ run_paused: { paused_by: by, reason: recorded(reason) } })),
  )

/** What ended or became due meanwhile is settled first. A mission over its budget goes on with a higher limit alone. */
export const resumeMission = (deps: MissionDeps, person: MissionPerson, asked: OfMission) =>
  actOn(deps, person, asked, (acting) => {
    const { run } = acting.batch
    if (run.state !== 'paused') return refuseState(run, `The mission is ${run.state}, not paused.`, 'running')
    return moveBy('running', (by) => ({ run_resumed: { resumed_by: by } }))(acting)
  })

/** Cancels the command of the mission, and then does what its next turn would do, so that the answer is the end. */
export async function cancelMission(
  deps: MissionDeps,
  person: MissionPerson,
  { workspaceId, missionId, reason }: WithReason,
): Promise<Decision<StoredMission>> {
  const { db, wake } = deps.commands
  const run = await findMission(db, workspaceId, missionId)
  if (!run) return refuseNoMission()
  if (run.state_type === 'terminal') return refuseState(run, `The mission is ${run.state}.`, 'cancelled')
  const { command_id: commandId } = run
  const cancelled = await cancelCommand(deps.commands, person, { workspaceId, commandId, reason })
  if (!cancelled.ok && cancelled.code === 'commands.action.not_allowed') return cancelled
  const [origin] = await db.run(findOrigin, [missionId])
  if (cancelled.ok && origin?.cancellation_requested) await cancel(deps, { run, origin })
  await wake({ kind: MISSION_KIND, id: missionId }, { queue: MISSION_QUEUE })
  const fresh = (await findMission(db, workspaceId, missionId)) ?? run
  // A turn may have moved it since it was read. Its next one cancels it, unless it has ended.
  if (fresh.state === 'cancelled' || (cancelled.ok && fresh.state_type !== 'terminal')) return accept(fresh)
  return refuseState(fresh, `The mission is ${fresh.state}.`, 'cancelled')
}

export type DecidingDeps = MissionDeps & { readonly approvals: ApprovalDeps }
type DecidePlan = WithReason & { readonly decision: 'approved' | 'rejected' }

/** The decision in the inbox about a command. Undefined: nobody is asked. Who may decide, and that it is decided once, is for the inbox. */
export async function decideAsked(
  { commands: { db }, approvals }: DecidingDeps,
  principal: Principal,
  traceId: string,
  asked: {
    readonly workspaceId: string
    readonly commandId: string
    readonly decision: DecisionValue
    readonly reason?: string | undefined
  },
): Promise<Decision<unknown> | undefined> {
  const { workspaceId, commandId, decision, reason } = asked
  const viewer = { ...principal, origins: await findOrigins(db, principal.userId, workspaceId) }
  const own = await listApprovals(db, viewer, { workspaceId, commandId, mine: true, limit: 1 })
  const [pending] = own.items.length > 0 ? own.items : await findPending(db, { workspaceId, commandId })
  if (!pending) return undefined
  const given = { workspaceId, approvalId: pending.approval_id, decision, reason }
  return decideApproval(approvals, byPerson(principal, traceId), given)
}

/** Decides about the gate. The question about a plan that was changed since is no longer open, also before a turn closes it. */
export async function decidePlan(
  deps: DecidingDeps,
  principal: Principal,
  traceId: string,
  { workspaceId, missionId, decision, reason }: DecidePlan,
): Promise<Decision<StoredMission>> {
  const { db } = deps.commands
  const run = await findMission(db, workspaceId, missionId)
  if (!run) return refuseNoMission()
  const [origin] = await db.run(findOrigin, [missionId])
  const commandId = run.state_type === 'pending' && !origin?.is_gate_stale ? run.gate_command_id : null
  const decided =
    commandId === null
      ? undefined
      : await decideAsked(deps, principal, traceId, { workspaceId, commandId, decision, reason })
  if (!decided) return refuseState(run, `The mission is ${run.state}, and nobody is asked about its plan.`)
  return decided.ok ? accept((await findMission(db, workspaceId, missionId)) ?? run) : decided
}
