/** The payloads of the 36 event types: consumers read them, so fields are only ever added. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { missionRunMachine, missionTaskMachine } from '#kernel/machines/mission'
import { missionEventPayloads, type MissionEventType, missionLog } from './events.ts'

/** Each type with the fields that a consumer may count on, by hand. `?` marks one that may be left out. */
const contract: Readonly<Record<MissionEventType, readonly [row: string, fields: string]>> = {
  run_created: ['MIS-237', 'goal config_summary autonomy_level'],
  run_planning_started: ['MIS-238', 'coordinator_model'],
  run_plan_ready: ['MIS-239', 'task_count estimated_cost strategy'],
  run_approved: ['MIS-240', 'approved_by modifications?'],
  run_rejected: ['MIS-241', 'rejected_by reason'],
  run_started: ['MIS-242', ''],
  run_paused: ['MIS-243', 'paused_by reason'],
  run_resumed: ['MIS-244', 'resumed_by'],
  run_budget_warning: ['MIS-245', 'current_cost soft_limit percent_used'],
  run_budget_exceeded: ['MIS-246', 'current_cost hard_limit'],
  run_budget_increased: ['MIS-247', 'old_limit new_limit increased_by'],
  run_completed: ['MIS-248', 'total_cost total_tokens duration_ms tasks_completed tasks_failed'],
  run_failed: ['MIS-249', 'reason failing_task_id total_cost'],
  run_cancelled: ['MIS-250', 'cancelled_by tasks_remaining'],
  task_created: ['MIS-251', 'task_type trigger_rule depends_on carried_from?'],
  task_queued: ['MIS-252', 'unblocked_by'],
  task_assigned: ['MIS-253', 'agent_id agent_type model board_task_id'],
  task_started: ['MIS-254', 'attempt_number'],
  task_continuing: ['MIS-255', 'continuation_count tokens_this_turn'],
  task_resumed: ['MIS-256', 'continuation_count'],
  task_output_submitted: ['MIS-257', 'output_ref output_summary_length tokens_used'],
  task_verification_started: ['MIS-258', 'verifier_agent_id verifier_model'],
  task_verification_passed: ['MIS-259', 'score verifier_feedback'],
  task_verification_failed: ['MIS-260', 'score verifier_feedback retries_remaining'],
  task_human_review_requested: ['MIS-261', 'reason score'],
  task_human_approved: ['MIS-262', 'approved_by'],
  task_human_rejected: ['MIS-263', 'rejected_by reason retries_remaining'],
  task_retrying: ['MIS-264', 'attempt_number backoff_seconds failure_type'],
  task_crashed: ['MIS-265', 'error_type error_message duration_ms'],
  task_failed: ['MIS-266', 'reason total_attempts total_cost'],
  task_skipped: ['MIS-267', 'skipped_because failed_dependency_id'],
  task_cancelled: ['MIS-268', 'cancelled_by'],
  stall_detected: ['MIS-269', 'entity_type entity_id stalled_state stalled_since action_taken'],
  model_fallback: ['MIS-270', 'task_id requested_model fallback_model reason'],
  cost_snapshot: ['MIS-271', 'run_id total_cost total_tokens by_task'],
  plan_change_rejected: ['MIS-279', 'reason cycle'],
}

const lists = ['depends_on', 'cycle']
const objects = ['config_summary', 'by_task', 'modifications']
const numbers =
  `percent_used score backoff_seconds duration_ms total_tokens tasks_completed tasks_failed tasks_remaining task_count
  attempt_number continuation_count tokens_this_turn tokens_used output_summary_length retries_remaining total_attempts agent_id
  board_task_id verifier_agent_id`.split(/\s+/)
const valueOf = (field: string) =>
  lists.includes(field) ? [] : objects.includes(field) ? {} : numbers.includes(field) ? 2 : '2'

const check = (type: string, payload: object) => missionLog.checkPayload?.(type as MissionEventType, payload as never)

describe('the events of missions', () => {
  test('[MIS-027] the types are these, and a payload of another is refused', () => {
    assert.deepEqual(missionLog.types, Object.keys(contract))
    const ofRuns = missionLog.types.filter((type) => type.startsWith('run_'))
    const ofTasks = missionLog.types.filter((type) => type.startsWith('task_'))
    assert.deepEqual([ofRuns.length, ofTasks.length, missionLog.types.length], [14, 18, 36])
    assert.throws(() => check('run_forgotten', {}))
  })

  for (const [type, [row, fields]] of Object.entries(contract) as [MissionEventType, [string, string]][])
    test(`[${row}] [MIS-115] [MIS-279] ${type} has ${fields === '' ? 'no field' : fields}`, () => {
      const names = fields.split(' ').filter((name) => name !== '')
      const payload = Object.fromEntries(
        names.map((name) => name.replace('?', '')).map((name) => [name, valueOf(name)]),
      )
      check(type, payload)
      check(type, { ...payload, added_later: true })
      for (const name of names) {
        const { [name.replace('?', '')]: _, ...without } = payload
        if (name.endsWith('?')) check(type, without)
        else assert.throws(() => check(type, without), { code: 'event.payload.invalid' }, name)
      }
      const known = Object.keys(missionEventPayloads[type].shape).map((name) =>
        names.includes(`${name}?`) ? `${name}?` : name,
      )
      assert.deepEqual(known, names, 'a field that is new here belongs into this list')
    })

  test('[MIS-245] [MIS-258] [MIS-270] [MIS-271] these types come with no move', () => {
    const moved = new Set<string>(
      [...missionRunMachine.moves, ...missionTaskMachine.moves].flatMap(({ emits }) => emits),
    )
    assert.deepEqual(
      missionLog.types.filter((type) => !moved.has(type)),
      [
        'run_created',
        'run_started',
        'run_budget_warning',
        'task_created',
        'task_verification_started',
        'model_fallback',
        'cost_snapshot',
        'plan_change_rejected',
      ],
    )
  })
})
