/** The API shapes of missions: a mission, its tasks and edges, and its events. */
import { z } from 'zod'
import { idView, orNull, pageView, textField, timeView } from '#contract'
import { amountOf } from '#domains/budgets'
import type { Catalog } from '#domains/commands'
import { triggerRules } from '#kernel/dag/readiness'
import { failureTypes } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { formatMoney } from '#kernel/money'
import { stateTypes } from '#kernel/machine'
import { missionRunStates, missionTaskStates, missionTaskTypes } from '#kernel/machines/mission'
import { warnOfSettings } from './config.ts'
import { showPlan } from './hidden-values.ts'
import type { StoredEdge, StoredMission, StoredTask, TitledEvent } from './mission.ts'
import { missionActions, nextOfMission } from './next-steps.ts'
import { dependencyTypes, missionPlan, type MissionPlan, sayRun } from './plan.ts'

export const missionState = z.enum(missionRunStates)
const taskState = z.enum(missionTaskStates)
export const missionStateType = z.enum(stateTypes)

const progressView = z
  .object({ tasks: z.int(), completed: z.int(), failed: z.int() })
  .meta({ id: 'MissionProgress', example: { tasks: 3, completed: 1, failed: 0 } })

const amount = z.string().meta({ example: '10.000000' })
const budgetView = z
  .object({ limit: amount, reserved: amount, spent: amount })
  .meta({ id: 'MissionBudget', description: 'The hard limit, what attempts have reserved, and what they have cost.' })

export const missionView = z
  .object({
    mission_id: idView('mission'),
    command_id: idView('command').meta({ description: 'The command that asked for it and waits for its end.' }),
    gate_command_id: idView('command')
      .nullable()
      .meta({ description: 'The command that starts the plan. A person approves it in the inbox.' }),
    forked_from: idView('mission').nullable(),
    title: z.string().meta({ example: 'Release 2.4' }),
    goal: z.string().meta({ example: 'Release 2.4' }),
    description: z.string().nullable(),
    state: missionState,
    state_type: missionStateType,
    progress: progressView,
    budget: budgetView.nullable().meta({ description: 'Null: the mission has no hard limit.' }),
    total_cost: z.string().meta({ example: '1.250000', description: 'What its tasks have cost.' }),
    total_tokens: z.int(),
    error: z.string().nullable(),
    result_summary: z.string().nullable(),
    warnings: z.array(z.string()).meta({ description: 'Settings that have no effect, with the nearest name.' }),
    created_by: z.string().meta({ example: 'user:0197f3b2c4d57a8e9b0c1d2e3f405161' }),
    created_at: timeView(),
    started_at: timeView().nullable(),
    completed_at: timeView().nullable(),
    duration_ms: z.string().nullable().meta({ example: '5300' }),
    next: z.array(z.object({ do: z.enum(missionActions), who: z.string(), words: z.string() })).meta({
      description: 'What people can do now, and who.',
      example: [{ do: 'approve', who: 'role:operator', words: 'approve the plan, so that it starts' }],
    }),
  })
  .meta({ id: 'Mission', description: 'One goal, from its plan to its outcome.' })

export const raiseMissionBudgetBody = z
  .strictObject({
    hard_limit: textField(40, { charsMin: 1 }).meta({
      example: '20.00',
      description: 'The new limit. It is above the cost and above the old limit.',
    }),
  })
  .meta({ id: 'RaiseMissionBudget' })

export const missionTaskView = z
  .object({
    task_id: idView('mission_task'),
    temp_id: z.string().meta({ example: 'notes' }),
    carried_from: idView('mission_task').nullable().meta({ description: 'Of the mission that this is a fork of.' }),
    sequence_number: z.int(),
    title: z.string(),
    task_type: z.enum(missionTaskTypes),
    state: taskState,
    state_type: missionStateType,
    trigger_rule: z.enum(triggerRules),
    run: z
      .string()
      .meta({ example: 'Generate Report', description: 'The task of the catalog, or `worker:` and the queue.' }),
    command_id: idView('command').nullable().meta({ description: 'Its attempt.' }),
    agent_run_id: idView('agent_run')
      .nullable()
      .meta({ description: 'The last run of the agent of its attempt, if the plan names an agent.' }),
    attempt_number: z.int(),
    cost: z.string().meta({ example: '0.250000', description: 'Of all attempts.' }),
    tokens_used: z.int(),
    waits_for: z.int().meta({ description: 'How many ends of other tasks its rule still waits for.' }),
    output_summary: z.string().nullable(),
    output_ref: z.string().nullable(),
    output_checksum: z
      .string()
      .nullable()
      .meta({ description: 'The digest of the output. A verdict counts for it alone.' }),
    verified_by: z.string().nullable(),
    verifier_score: z.string().nullable().meta({ example: '0.93' }),
    review_command_id: idView('command').nullable().meta({
      description:
        'The command that verifies its output. A person decides it in the inbox if the task is awaiting_human.',
    }),
    error: z.string().nullable(),
    failure_type: z.enum(failureTypes).nullable().meta({ description: 'Of the last attempt that failed.' }),
    due_at: timeView().nullable(),
    started_at: timeView().nullable(),
    completed_at: timeView().nullable(),
    duration_ms: z.string().nullable(),
  })
  .meta({ id: 'MissionTask' })

const neighbourView = z
  .object({
    task_id: idView('mission_task'),
    temp_id: z.string(),
    title: z.string(),
    state: taskState,
  })
  .meta({ id: 'MissionTaskNeighbour' })

export const explainedTaskView = z
  .object({
    task: missionTaskView,
    summary: z
      .string()
      .meta({ example: '"send" waits for "notes" (active) (all_success: all of its dependencies must complete).' }),
    depends_on: z.array(neighbourView),
    blocks: z.array(neighbourView).meta({ description: 'The tasks that depend on it.' }),
  })
  .meta({ id: 'ExplainedMissionTask' })

const edgeView = z
  .object({ task_id: idView('mission_task'), depends_on_id: idView('mission_task'), type: z.enum(dependencyTypes) })
  .meta({ id: 'MissionEdge' })

export const missionDetailView = missionView
  .extend({
    plan: missionPlan.nullable().meta({ description: 'Null: there is none yet, or it cannot be read.' }),
    tasks: z.array(missionTaskView),
    edges: z.array(edgeView),
  })
  .meta({ id: 'MissionDetail' })

const reason = textField(500)
  .optional()
  .meta({ example: 'The provider is down.', description: 'Goes into the record.' })
export const missionActionBody = z.strictObject({ reason }).meta({ id: 'MissionAction' })
export const rejectOutputBody = z
  .strictObject({
    reason,
    retry: z
      .boolean()
      .default(false)
      .meta({ example: true, description: 'The task runs again, with the reason. Otherwise it has failed.' }),
  })
  .meta({ id: 'RejectMissionOutput' })

export const missionEventView = z
  .object({
    event_id: z.string().meta({ example: '42', description: 'A position: later events have higher ones.' }),
    task_id: idView('mission_task').nullable(),
    task_title: z.string().nullable(),
    type: z.string().meta({ example: 'task_queued' }),
    payload: z.record(z.string(), z.unknown()),
    actor_type: z.string().meta({ example: 'coordinator' }),
    actor_id: z.string().nullable(),
    created_at: timeView(),
  })
  .meta({ id: 'MissionEvent' })

export const missionPageView = pageView(missionView, 'MissionPage')
export const missionTaskPageView = pageView(missionTaskView, 'MissionTaskPage')
export const missionEventPageView = pageView(missionEventView, 'MissionEventPage')

/** `approvers`: whom its gate asks now. */
export function toMissionView(run: StoredMission, approvers: readonly string[] = []): z.infer<typeof missionView> {
  return {
    mission_id: encodeId('mission', run.id),
    command_id: encodeId('command', run.command_id),
    gate_command_id: orNull(run.gate_command_id, (id) => encodeId('command', id)),
    forked_from: orNull(run.forked_from_id, (id) => encodeId('mission', id)),
    title: run.title,
    goal: run.goal,
    description: run.description,
    state: run.state,
    state_type: run.state_type,
    progress: { tasks: run.task_count, completed: run.tasks_completed, failed: run.tasks_failed },
    budget: run.budget && {
      limit: formatMoney(amountOf(run.budget.limit)),
      reserved: formatMoney(amountOf(run.budget.reserved)),
      spent: formatMoney(amountOf(run.budget.spent)),
    },
    total_cost: run.total_cost,
    total_tokens: run.total_tokens,
    error: run.error_message,
    result_summary: run.result_summary,
    warnings: [...warnOfSettings(run.config)],
    created_by: run.created_by,
    created_at: formatInstant(run.created_at),
    started_at: orNull(run.started_at, formatInstant),
    completed_at: orNull(run.completed_at, formatInstant),
    duration_ms: run.duration_ms,
    next: [...nextOfMission(run, approvers)],
  }
}

export function toMissionTaskView(task: StoredTask): z.infer<typeof missionTaskView> {
  return {
    task_id: encodeId('mission_task', task.id),
    temp_id: task.spec.temp_id,
    carried_from: orNull(task.carried_from_id, (id) => encodeId('mission_task', id)),
    sequence_number: task.sequence_number,
    title: task.title,
    task_type: task.task_type,
    state: task.state,
    state_type: task.state_type,
    trigger_rule: task.trigger_rule,
    run: sayRun(task.spec.run),
    command_id: orNull(task.command_id, (id) => encodeId('command', id)),
    agent_run_id: orNull(task.agent_run_id ?? null, (id) => encodeId('agent_run', id)),
    attempt_number: task.attempt_number,
    cost: task.cost,
    tokens_used: task.tokens_used,
    waits_for: task.remaining,
    output_summary: task.output_summary,
    output_ref: task.output_ref,
    output_checksum: task.output_checksum,
    verified_by: task.verified_by,
    verifier_score: task.verifier_score,
    review_command_id: orNull(task.review_command_id, (id) => encodeId('command', id)),
    error: task.error_message,
    failure_type: task.failure_type,
    due_at: orNull(task.due_at, formatInstant),
    started_at: orNull(task.started_at, formatInstant),
    completed_at: orNull(task.completed_at, formatInstant),
    duration_ms: task.duration_ms,
  }
}

export type ExplainedTask = {
  readonly task: StoredTask
  readonly summary: string
  readonly upstream: readonly Neighbour[]
  readonly downstream: readonly Neighbour[]
}
type Neighbour = Pick<StoredTask, 'id' | 'title' | 'state' | 'spec'>

const toNeighbourView = ({ id, title, state, spec: { temp_id } }: Neighbour) => ({
  task_id: encodeId('mission_task', id),
  temp_id,
  title,
  state,
})

export const toExplainedTaskView = ({
  task,
  summary,
  upstream,
  downstream,
}: ExplainedTask): z.infer<typeof explainedTaskView> => ({
  task: toMissionTaskView(task),
  summary,
  depends_on: upstream.map(toNeighbourView),
  blocks: downstream.map(toNeighbourView),
})

export type MissionDetail = {
  readonly run: StoredMission
  readonly approvers: readonly string[]
  readonly plan: MissionPlan | null
  readonly tasks: readonly StoredTask[]
  readonly edges: readonly StoredEdge[]
}

export function toMissionDetailView(
  { run, approvers, plan, tasks, edges }: MissionDetail,
  catalog: Pick<Catalog, 'tasks'>,
): z.input<typeof missionDetailView> {
  return {
    ...toMissionView(run, approvers),
    plan: plan && showPlan(plan, catalog),
    tasks: tasks.map(toMissionTaskView),
    edges: edges.map(({ task_id, depends_on_id, dependency_type }) => ({
      task_id: encodeId('mission_task', task_id),
      depends_on_id: encodeId('mission_task', depends_on_id),
      type: dependency_type,
    })),
  }
}

export function toMissionEventView(event: TitledEvent): z.infer<typeof missionEventView> {
  return {
    event_id: event.id,
    task_id: orNull(event.task_id, (id) => encodeId('mission_task', id)),
    task_title: event.task_title,
    type: event.event_type,
    payload: event.payload,
    actor_type: event.actor_type,
    actor_id: event.actor_id,
    created_at: formatInstant(event.created_at),
  }
}
