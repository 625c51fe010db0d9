/**
 * A person changes the plan of a mission. Before the start the new version replaces the old one, and people are asked again. While the mission runs tasks are
 * added; those that exist stay as they are.
 */
import { cancelApprovals, showActor } from '#domains/approvals'
import { bySystem } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import { validateGraph } from '#kernel/dag/graph'
import type { JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import {
  type Acting,
  actOn,
  type MissionPerson,
  type OfMission,
  refuseNoMission,
  refuseState,
} from './act-on-mission.ts'
import { readMissionConfig } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { restorePlan } from './hidden-values.ts'
import { listTasks } from './mission-task.ts'
import { findMission, readStoredPlan, setPlan, type StoredMission } from './mission.ts'
import { coordinator, insertRows, plannedRows, planReady } from './plan-rows.ts'
import { missionPlan, type MissionPlan, nodesOf, readPlan } from './plan.ts'
import { previewGate, runnableTasks } from './start-plan.ts'

type ChangePlan = OfMission & { readonly plan: MissionPlan; readonly requestId: string }

const NOT_STARTED: readonly StoredMission['state'][] = ['planning', 'awaiting_approval']
const STARTED: readonly StoredMission['state'][] = ['running', 'paused', 'budget_exceeded']

export async function changePlan(
  deps: MissionDeps,
  person: MissionPerson,
  { plan: given, requestId, ...asked }: ChangePlan,
): Promise<Decision<StoredMission>> {
  const { db, catalog } = deps.commands
  const run = await findMission(db, asked.workspaceId, asked.missionId)
  if (!run) return refuseNoMission()
  const payloadOf = (task: string) => catalog.tasks.get(task)?.type.payload
  const basis = missionPlan.safeParse(await readStoredPlan(db, run.id)).data
  const restored = restorePlan(given, basis, catalog)
  const checked = restored.ok
    ? readPlan(restored.value as unknown as JsonValue, runnableTasks(catalog), payloadOf)
    : restored
  const allowed =
    STARTED.includes(run.state) && checked.ok
      ? await checkApproval(deps, person, { run, plan: checked.value, ...asked, requestId })
      : accept(null)
  return actOn(deps, person, asked, async (acting): Promise<Decision<StoredMission>> => {
    const { batch, at, by, tx } = acting
    const { state, forked_from_id } = batch.run
    const isStarted = STARTED.includes(state)
    if (!isStarted && (!NOT_STARTED.includes(state) || forked_from_id !== null))
      return refuseState(batch.run, `The mission is ${state}, and its plan is fixed.`)
    // The people whom it asked have not seen what this change would add.
    if (isStarted && !STARTED.includes(run.state)) return refuseState(batch.run, 'The mission has started meanwhile.')
    if (!allowed.ok) return allowed
    const stored = missionPlan.safeParse(await readStoredPlan(tx, asked.missionId))
    const isStale = stored.data?.version !== basis?.version
    const next = checked.ok ? decideVersion(stored.data, checked.value, { isStarted, isStale }) : checked
    if (!next.ok) {
      const payloads = { plan_change_rejected: { reason: next.reason, cycle: cycleOf(given) } }
      batch.note('plan_change_rejected', { by, at, payloads })
      await batch.commit(tx)
      return tx.commitRefusal(next)
    }
    await setPlan(tx, asked.missionId, next.value)
    if (isStarted) await addTasks(deps, acting, next.value)
    // Nobody decides about the old plan any more. The turn cancels the command that asked.
    const { gate_command_id: gate, workspace_id: workspaceId } = batch.run
    if (!isStarted && gate !== null) {
      const closes = { workspaceId, commandId: gate, why: 'plan_changed' }
      await cancelApprovals(tx, deps.commands.newId, bySystem(by.traceId), closes)
    }
    // While it is being planned, the end of planning writes it.
    if (state !== 'planning') batch.note('run_plan_ready', { by, at, payloads: planReady(next.value) })
    return accept(batch.run)
  })
}

const cycleOf = ({ tasks }: MissionPlan): string[] => {
  const graph = validateGraph(nodesOf(tasks))
  return !graph.ok && graph.code === 'dag_cycle' ? (graph.facts?.['cycle'] as string[]) : []
}

/** The version says which one the person has changed, so of two changes at once one wins. */
function decideVersion(
  stored: MissionPlan | undefined,
  next: MissionPlan,
  { isStarted, isStale }: { readonly isStarted: boolean; readonly isStale: boolean },
): Decision<MissionPlan> {
  const version = (stored?.version ?? 0) + 1
  if (isStale || next.version !== version)
    return refuse('missions.plan.stale', `The plan has changed: its next version is ${version}.`, {
      path: 'version',
      facts: { version },
    })
  const after = new Map(next.tasks.map((task) => [task.temp_id, canonicalJson(task as unknown as JsonValue)]))
  const changed = isStarted
    ? stored?.tasks.find((task) => after.get(task.temp_id) !== canonicalJson(task as unknown as JsonValue))
    : undefined
  if (!changed) return accept(next)
  return refuse('missions.plan.started', `The task ${quote(changed.temp_id)} exists, and stays as it is.`, {
    path: 'tasks',
    facts: { temp_id: changed.temp_id },
  })
}

type Approved = ChangePlan & { readonly run: StoredMission }

/** Who would start the whole plan alone may add to it. Where others decide about plans, a fork asks them. */
async function checkApproval(
  deps: MissionDeps,
  person: MissionPerson,
  { run, plan, workspaceId, requestId }: Approved,
): Promise<Decision<null>> {
  const config = readMissionConfig(run.config)
  if (!config.ok) return config
  const asked = { workspaceId, requestId, run, plan, config: config.value, carried: new Map() }
  const gate = await previewGate(deps, person, asked)
  if (!gate.ok) return gate
  const { error, approvals } = gate.value
  if (error !== null) return refuse('missions.plan.not_approved', `The plan would not start: ${error}`)
  const self = showActor(person.id)
  const other = approvals.find(({ approver, approvals_required }) => approver !== self || approvals_required > 1)
  if (!other) return accept(null)
  return refuse('missions.plan.not_approved', `${other.approver} decides about the plan of this mission.`)
}

/** Under the lock of the mission, so what the new tasks wait for is counted once and for all. */
async function addTasks({ commands: { newId } }: MissionDeps, acting: Acting, plan: MissionPlan): Promise<void> {
  const { batch, at, by, tx } = acting
  const { run } = batch
  const config = readMissionConfig(run.config)
  if (!config.ok) return
  const known = new Map((await listTasks(tx, run.id)).map((task) => [task.spec.temp_id, task]))
  const rows = plannedRows(run, plan, { carried: new Map(), known }, at, newId)
  const added = await insertRows(tx, run, config.value, rows, by, at)
  batch.addTasks(added.length)
  const byId = new Map(added.map((task) => [task.id, task]))
  for (const { id, because, reason } of rows.skips) {
    const task = byId.get(id)
    const payloads = { task_skipped: { skipped_because: reason, failed_dependency_id: because } }
    if (task) batch.task(task, 'skipped', { by: coordinator(by.traceId), at, payloads })
  }
}
