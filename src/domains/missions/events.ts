/**
 * The log of missions: the closed list of 36 event types, each with the fields of its payload. Fields may be added, never removed or renamed. No state is
 * rebuilt from it.
 */
import { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import { defineEventLog, type EventDraft } from '#store'

const text = z.string()
const count = z.int().min(0)
const orNull = <T extends z.ZodType>(shape: T) => shape.nullable()
const cost = z.string().regex(/^\d+(\.\d+)?$/)

/** The payload of each type. */
export const missionEventPayloads = {
  run_created: z.object({ goal: text, config_summary: z.record(text, z.json()), autonomy_level: text }),
  run_planning_started: z.object({ coordinator_model: orNull(text) }),
  run_plan_ready: z.object({ task_count: count, estimated_cost: cost, strategy: text }),
  run_approved: z.object({ approved_by: text, modifications: z.json().optional() }),
  run_rejected: z.object({ rejected_by: orNull(text), reason: orNull(text) }),
  run_started: z.object({}),
  run_paused: z.object({ paused_by: text, reason: orNull(text) }),
  run_resumed: z.object({ resumed_by: text }),
  run_budget_warning: z.object({ current_cost: cost, soft_limit: cost, percent_used: z.number() }),
  run_budget_exceeded: z.object({ current_cost: cost, hard_limit: cost }),
  run_budget_increased: z.object({ old_limit: cost, new_limit: cost, increased_by: text }),
  run_completed: z.object({
    total_cost: cost,
    total_tokens: count,
    duration_ms: count,
    tasks_completed: count,
    tasks_failed: count,
  }),
  run_failed: z.object({ reason: text, failing_task_id: orNull(text), total_cost: cost }),
  run_cancelled: z.object({ cancelled_by: orNull(text), tasks_remaining: count }),
  task_created: z.object({
    task_type: text,
    trigger_rule: text,
    depends_on: z.array(text),
    carried_from: text.optional(),
  }),
  task_queued: z.object({ unblocked_by: orNull(text) }),
  task_assigned: z.object({
    agent_id: orNull(z.int()),
    agent_type: orNull(text),
    model: orNull(text),
    board_task_id: orNull(z.int()),
  }),
  task_started: z.object({ attempt_number: z.int().min(1) }),
  task_continuing: z.object({ continuation_count: count, tokens_this_turn: count }),
  task_resumed: z.object({ continuation_count: count }),
  task_output_submitted: z.object({ output_ref: orNull(text), output_summary_length: count, tokens_used: count }),
  task_verification_started: z.object({ verifier_agent_id: orNull(z.int()), verifier_model: orNull(text) }),
  task_verification_passed: z.object({ score: orNull(z.number()), verifier_feedback: orNull(text) }),
  task_verification_failed: z.object({
    score: orNull(z.number()),
    verifier_feedback: orNull(text),
    retries_remaining: count,
  }),
  task_human_review_requested: z.object({ reason: text, score: orNull(z.number()) }),
  task_human_approved: z.object({ approved_by: text }),
  task_human_rejected: z.object({ rejected_by: text, reason: orNull(text), retries_remaining: count }),
  task_retrying: z.object({ attempt_number: z.int().min(2), backoff_seconds: z.number(), failure_type: text }),
  task_crashed: z.object({ error_type: text, error_message: orNull(text), duration_ms: orNull(count) }),
  task_failed: z.object({ reason: text, total_attempts: z.int().min(1), total_cost: cost }),
  task_skipped: z.object({ skipped_because: text, failed_dependency_id: orNull(text) }),
  task_cancelled: z.object({ cancelled_by: orNull(text) }),
  stall_detected: z.object({
    entity_type: text,
    entity_id: text,
    stalled_state: text,
    stalled_since: text,
    action_taken: text,
  }),
  model_fallback: z.object({ task_id: text, requested_model: text, fallback_model: text, reason: text }),
  cost_snapshot: z.object({ run_id: text, total_cost: cost, total_tokens: count, by_task: z.json() }),
  plan_change_rejected: z.object({ reason: text, cycle: z.array(text) }),
} as const

export type MissionEventType = keyof typeof missionEventPayloads
export const missionEventTypes = Object.keys(missionEventPayloads) as readonly MissionEventType[]
export type MissionEvent = EventDraft<MissionEventType>

/** The actor that is no person and no agent. */
export const NOBODY = 'system'

export const missionLog = defineEventLog({
  table: 'missions.orchestration_events',
  types: missionEventTypes,
  time: 'created_at',
  columns: [
    { name: 'event_type', type: 'text', valueOf: ({ type }) => type },
    { name: 'payload', type: 'jsonb', valueOf: ({ payload }) => payload },
    { name: 'actor_type', type: 'text', valueOf: ({ actorKind }) => actorKind },
    { name: 'actor_id', type: 'text', valueOf: ({ actor }) => (actor === NOBODY ? null : actor) },
    { name: 'created_at', type: 'timestamptz', valueOf: ({ at }) => at },
  ],
  links: { run_id: 'uuid', task_id: 'uuid' },
  checkPayload(type, payload) {
    const parsed = missionEventPayloads[type].safeParse(payload)
    if (!parsed.success)
      throw new KernelFault('event.payload.invalid', `The payload of ${type} is wrong: ${parsed.error.message}`)
  },
})
