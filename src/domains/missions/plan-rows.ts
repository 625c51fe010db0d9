/** The rows of a plan that starts: tasks, edges, cards and events, in the transaction that moves the mission to `running`. */
import { validateGraph } from '#kernel/dag/graph'
import { countRemaining, decideReadiness, endStates, listUpstream, type NodeState, ruleOf } from '#kernel/dag/readiness'
import { KernelFault } from '#kernel/errors'
import { appendEvents, statement, type Tx } from '#store'
import { Batch, draftOf, type MissionActor } from './batch.ts'
import { findMissionCard, insertCards } from './board.ts'
import { newTaskCard } from './cards.ts'
import type { MissionConfig } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { type MissionEvent, missionLog, NOBODY } from './events.ts'
import { insertPlanned } from './mission-task.ts'
import type { StoredEdge, StoredMission, StoredTask } from './mission.ts'
import { edgesOf, type MissionPlan, nodesOf, type PlanTask } from './plan.ts'

export type ReadPlan = {
  readonly run: StoredMission
  readonly plan: MissionPlan
  readonly config: MissionConfig
  /** By temporary id: completed tasks of the mission that this one is a fork of. */
  readonly carried: ReadonlyMap<string, StoredTask>
}

/** $1 mission. People who were asked about a plan may have changed it first. */
const countEdits = statement<{ readonly edits: number }>(
  'missions.count_plan_edits',
  `select count(*)::int as edits from missions.orchestration_events as e
where e.run_id = $1::uuid and e.event_type = 'run_plan_ready' and e.actor_type = 'human'`,
)

export const coordinator = (traceId: string): MissionActor => ({ id: NOBODY, kind: 'coordinator', traceId })
export const systemOf = (traceId: string): MissionActor => ({ id: NOBODY, kind: 'system', traceId })

export const planReady = ({ tasks, estimated_cost, strategy }: MissionPlan) => ({
  run_plan_ready: { task_count: tasks.length, estimated_cost, strategy },
})

export async function startMission(
  tx: Tx,
  { commands: { now, newId } }: MissionDeps,
  {
    run,
    plan,
    config,
    carried,
    traceId,
    approvedBy,
  }: ReadPlan & { readonly traceId: string; readonly approvedBy: string | null },
): Promise<void> {
  const at = now()
  const rows = plannedRows(run, plan, { carried, known: new Map() }, at, newId)
  const by = coordinator(traceId)
  const tasks = await insertRows(tx, run, config, rows, by, at)
  const batch = new Batch({ ...run, task_count: tasks.length, tasks_completed: carried.size, run_after: at })
  const more = { strategy: plan.strategy, estimated_cost: plan.estimated_cost }
  const [{ edits } = { edits: 0 }] = await tx.run(countEdits, [run.id])
  const modifications = edits === 0 ? {} : { modifications: { edits, plan_version: plan.version } }
  const approved = { run_approved: { approved_by: approvedBy ?? 'auto', ...modifications } }
  if (approvedBy === null && run.state === 'planning')
    batch.mission('running', { by, at, payloads: { ...planReady(plan), ...approved } }, more)
  else {
    if (run.state === 'planning') batch.mission('awaiting_approval', { by, at, payloads: planReady(plan) }, more)
    batch.mission('running', { by: { id: approvedBy ?? NOBODY, kind: 'human', traceId }, at, payloads: approved }, more)
  }
  await batch.commit(tx)
}

/** Tasks, edges, events and cards. Returns the tasks with their cards. */
export async function insertRows(
  tx: Tx,
  run: StoredMission,
  config: MissionConfig,
  { tasks, edges }: Pick<PlannedRows, 'tasks' | 'edges'>,
  by: MissionActor,
  at: Date,
): Promise<readonly StoredTask[]> {
  const dependsOn = groupBy(edges)
  // The cards come first, so that each task is written once, with its card.
  const newCards = tasks.map((task) => newTaskCard(task, config, dependsOn.get(task.id) ?? []))
  const cards = await insertCards(tx, newCards, await findMissionCard(tx, run.id))
  const linked = tasks.map((task) => ({ ...task, board_task_id: cards.get(task.id) ?? null }))
  await insertPlanned(tx, linked, edges)
  await appendEvents(
    tx,
    missionLog,
    tasks.map((task) => createdEvent(task, dependsOn.get(task.id) ?? [], by, at)),
  )
  return linked
}

function groupBy(edges: readonly StoredEdge[]): ReadonlyMap<string, readonly string[]> {
  const lists = new Map<string, string[]>()
  for (const { task_id, depends_on_id } of edges) {
    const list = lists.get(task_id)
    if (list) list.push(depends_on_id)
    else lists.set(task_id, [depends_on_id])
  }
  return lists
}

function createdEvent(task: StoredTask, dependsOn: readonly string[], by: MissionActor, at: Date): MissionEvent {
  const { task_type, trigger_rule, run_id, id, carried_from_id } = task
  const links = { run_id, task_id: id }
  const carried = carried_from_id === null ? {} : { carried_from: carried_from_id }
  const task_created = { task_type, trigger_rule, depends_on: dependsOn, ...carried }
  return draftOf('task_created', links, { by, at, payloads: { task_created } })
}

/** A carried task is created completed, with the outputs and the command of its origin, and cost nothing here. */
const carriedFields = (origin: StoredTask) => ({
  state: origin.state,
  state_type: origin.state_type,
  agent_id: origin.agent_id,
  agent_type: origin.agent_type,
  output_summary: origin.output_summary,
  output_ref: origin.output_ref,
  output_checksum: origin.output_checksum,
  verifier_score: origin.verifier_score,
  verified_by: origin.verified_by,
  started_at: origin.started_at,
  completed_at: origin.completed_at,
  duration_ms: origin.duration_ms,
  command_id: origin.command_id,
  remaining: 0,
  carried_from_id: origin.id,
})

export const nodeStateOf = ({ state }: Pick<StoredTask, 'state'>): NodeState =>
  state === 'pending' ? state : (endStates.find((end) => end === state) ?? 'active')

type PlannedRows = {
  readonly tasks: readonly StoredTask[]
  readonly edges: readonly StoredEdge[]
  /** Those of them that can never run, because of a task that has ended. */
  readonly skips: readonly { readonly id: string; readonly because: string; readonly reason: string }[]
}

/**
 * The rows of the tasks that the mission does not have yet. The temporary ids become ids, and each task knows how many upstream ends its rule waits for. What
 * is carried has ended.
 */
export function plannedRows(
  run: StoredMission,
  plan: MissionPlan,
  { carried, known }: Pick<ReadPlan, 'carried'> & { readonly known: ReadonlyMap<string, StoredTask> },
  at: Date,
  newId: () => string,
): PlannedRows {
  const graph = validateGraph(nodesOf(plan.tasks))
  if (!graph.ok) throw new KernelFault('missions.plan.unchecked', graph.reason)
  const states = new Map<string, NodeState>([...carried.keys()].map((id) => [id, 'completed']))
  for (const [id, task] of known) states.set(id, nodeStateOf(task))
  const ids = new Map(plan.tasks.map(({ temp_id }) => [temp_id, known.get(temp_id)?.id ?? newId()]))
  const skips: { id: string; because: string; reason: string }[] = []
  for (const position of graph.value.order) {
    const node = graph.value.nodes[position]
    if (!node || states.has(node.id)) continue
    const readiness = decideReadiness(ruleOf(node), listUpstream(graph.value, states, position))
    if (readiness.kind !== 'unreachable') continue
    states.set(node.id, 'skipped')
    const because = ids.get(readiness.because[0]?.id ?? '') ?? ''
    skips.push({ id: ids.get(node.id) ?? '', because, reason: readiness.reason })
  }
  const remaining = countRemaining(graph.value, states)
  const added = plan.tasks.filter(({ temp_id }) => !known.has(temp_id))
  const idOf = (tempId: string) => ids.get(tempId) ?? ''
  const carriedOf = ({ temp_id }: PlanTask) => {
    const origin = carried.get(temp_id)
    return origin && carriedFields(origin)
  }
  const tasks = added.map(
    (task, index): StoredTask => ({
      id: idOf(task.temp_id),
      run_id: run.id,
      workspace_id: run.workspace_id,
      sequence_number: known.size + index + 1,
      title: task.title,
      description: task.description ?? null,
      task_type: task.task_type,
      state: 'pending',
      state_type: 'pending',
      trigger_rule: task.trigger_rule,
      agent_id: null,
      agent_type: null,
      model_override: task.suggested_model ?? null,
      tools_requested: task.tools_requested ?? null,
      success_criteria: task.success_criteria ?? null,
      output_summary: null,
      output_ref: null,
      output_checksum: null,
      checks_passed: 0,
      verifier_score: null,
      verified_by: null,
      error_message: null,
      attempt_number: 1,
      continuation_count: 0,
      tokens_used: 0,
      cost: '0',
      board_task_id: null,
      started_at: null,
      completed_at: null,
      duration_ms: null,
      version_id: 1,
      created_at: at,
      updated_at: at,
      due_at: null,
      last_heartbeat_at: null,
      spec: {
        temp_id: task.temp_id,
        run: task.run,
        ...(task.max_retries === undefined ? {} : { max_retries: task.max_retries }),
        ...(task.max_continuations === undefined ? {} : { max_continuations: task.max_continuations }),
        ...(task.verify === undefined ? {} : { verify: task.verify }),
        ...(task.max_cost === undefined ? {} : { max_cost: task.max_cost }),
      },
      remaining: remaining.get(task.temp_id) ?? 0,
      command_id: null,
      review_command_id: null,
      lease_token: null,
      lease_until: null,
      worker_id: null,
      submission: null,
      returns: 0,
      attempt_started_at: null,
      failure_type: null,
      receipt: null,
      carried_from_id: null,
      ...carriedOf(task),
    }),
  )
  const edges = added.flatMap((task) =>
    edgesOf(task).map(
      ({ from, type }): StoredEdge => ({
        task_id: idOf(task.temp_id),
        depends_on_id: idOf(from),
        dependency_type: type,
        created_at: at,
        run_id: run.id,
      }),
    ),
  )
  return { tasks, edges, skips }
}
