/** What the board shows of a mission and of a task. Pure. */
import { cutText } from '#kernel/cut-text'
import type { JsonObject } from '#kernel/json-value'
import type { MissionRunState, MissionTaskState } from '#kernel/machines/mission'
import type { MissionConfig } from './config.ts'
import type { StoredMission, StoredTask } from './mission.ts'

const SUMMARY_MAX = 2_000
const RESULT_MAX = 4_000
const SKIPPED = 'skipped: dependency failed'

/** The columns of the board, from left to right. */
export const cardStatuses = ['inbox', 'assigned', 'in_progress', 'review', 'done'] as const
type CardStatus = (typeof cardStatuses)[number]

export const taskStatuses = {
  pending: 'inbox',
  queued: 'inbox',
  awaiting_retry: 'assigned',
  assigned: 'assigned',
  running: 'in_progress',
  continuing: 'in_progress',
  verifying: 'review',
  awaiting_human: 'review',
  completed: 'done',
  failed: 'done',
  cancelled: 'done',
  skipped: 'done',
} as const satisfies Record<MissionTaskState, CardStatus>

export const runStatuses = {
  pending: 'inbox',
  planning: 'inbox',
  awaiting_approval: 'review',
  running: 'in_progress',
  paused: 'in_progress',
  budget_exceeded: 'review',
  completed: 'done',
  failed: 'done',
  cancelled: 'done',
} as const satisfies Record<MissionRunState, CardStatus>

/** A summary of a task and an error have at most 2,000 characters, the result of a card at most 4,000. */
export const cutSummary = (text: string) => cutText(text, SUMMARY_MAX)
const cutResult = (text: string | null) => (text === null ? null : cutText(text, RESULT_MAX))

/** The fields of a card that follow its row. */
export type CardUpdate = {
  readonly source_type: 'orchestration' | 'orchestration_task'
  readonly source_id: string
  readonly status: CardStatus
  readonly tags: readonly string[]
  readonly planning_data: JsonObject
  readonly result: string | null
  readonly error_message: string | null
  /** Null: no agent of the roster. */
  readonly assigned_agent_id: number | null
  readonly started_at: Date | null
  readonly completed_at: Date | null
}

export function taskCard(task: StoredTask): CardUpdate {
  return {
    source_type: 'orchestration_task',
    source_id: task.id,
    status: taskStatuses[task.state],
    tags: ['mission_task', task.task_type],
    planning_data: {
      run_id: task.run_id,
      task_id: task.id,
      sequence_number: task.sequence_number,
      trigger_rule: task.trigger_rule,
      attempt_number: task.attempt_number,
      continuation_count: task.continuation_count,
      model_override: task.model_override,
      success_criteria: task.success_criteria,
      verifier_score: task.verifier_score,
    },
    result: task.state === 'skipped' ? SKIPPED : cutResult(task.output_summary),
    error_message: task.state === 'failed' || task.state === 'cancelled' ? task.error_message : null,
    assigned_agent_id: task.agent_id,
    started_at: task.started_at,
    completed_at: task.completed_at,
  }
}

/** `more` is what the plan adds. A card keeps what it has, so it is named once. */
export function missionCard(run: StoredMission, more: JsonObject = {}): CardUpdate {
  return {
    source_type: 'orchestration',
    source_id: run.id,
    status: runStatuses[run.state],
    tags: ['mission', run.state],
    planning_data: {
      run_id: run.id,
      state: run.state,
      task_count: run.task_count,
      tasks_completed: run.tasks_completed,
      tasks_failed: run.tasks_failed,
      total_cost: run.total_cost,
      ...more,
    },
    result: null,
    error_message: run.state === 'failed' || run.state === 'cancelled' ? run.error_message : null,
    assigned_agent_id: run.coordinator_agent_id,
    started_at: run.started_at,
    completed_at: run.completed_at,
  }
}

type CardConfig = Pick<MissionConfig, 'autonomy' | 'priority'> & Partial<Pick<MissionConfig, 'auto_accept'>>

/** A card as it is inserted. */
export type NewCard = CardUpdate & {
  readonly workspace_id: string
  readonly title: string
  readonly description: string | null
  readonly priority: string
  readonly review_mode: 'manual' | 'auto'
  readonly created_by_type: 'orchestration'
  readonly created_by_id: string
}

export function newMissionCard(run: StoredMission, config: CardConfig): NewCard {
  return {
    ...missionCard(run, { autonomy: config.autonomy, strategy: null, estimated_cost: null }),
    workspace_id: run.workspace_id,
    title: `Mission: ${run.title}`,
    description: run.goal,
    priority: config.priority ?? 'high',
    review_mode: config.auto_accept ? 'auto' : 'manual',
    created_by_type: 'orchestration',
    created_by_id: run.created_by,
  }
}

export function newTaskCard(task: StoredTask, config: CardConfig, dependsOn: readonly string[]): NewCard {
  const card = taskCard(task)
  return {
    ...card,
    planning_data: { ...card.planning_data, depends_on: dependsOn },
    workspace_id: task.workspace_id,
    title: task.title,
    description: task.description,
    priority: config.priority ?? 'medium',
    review_mode: task.success_criteria === null ? 'auto' : 'manual',
    created_by_type: 'orchestration',
    created_by_id: 'system',
  }
}
