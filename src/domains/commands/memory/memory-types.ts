/** The command types of memory. A command names a row of the memory room, never what it says or whom it is about. */
import { z } from 'zod'
import { defineCommandType, defineFunction, type Definition } from '../catalog/definitions.ts'
import { defineTask } from '../catalog/task-spec.ts'

const WRITE_MEMORY = 'write_memory'
const FORGET_MEMORY = 'forget_memory'
/** What the shipped schedule `memory_decay_review` fires (`../maintenance.ts`). */
export const REVIEW_STALE_MEMORY = 'review_stale_memory'

export const writeMemoryTask = 'Write Memory'
export const forgetMemoryTask = 'Forget Subject'
export const reviewStaleMemoryTask = 'Review Stale Memory'

const DATA_OWNER = 'role:data_owner'

const failures = ['validation_error', 'policy_denied', 'temporary_database_error', 'internal_error'] as const

export const memoryTypeDefinitions: readonly Definition[] = [
  defineCommandType({
    name: WRITE_MEMORY,
    description: 'Remember what the candidate says; `concord memory candidates <id>` shows it with the consent.',
    payload: z.strictObject({ memory_candidate_id: z.uuid() }),
    fields: { memory_candidate_id: 'internal' },
    side_effects: ['memory.write'],
    error_classes: failures,
    compensation: { supported: true },
    cancellable_by: ['requester', 'admin'],
    audit: ['memory_candidate_created', 'memory_written'],
    policies: ['permission', 'data_safety', 'memory_data_safety', 'memory_consent', 'memory_write', 'rate'],
    approval: { approver: DATA_OWNER, expires_in_minutes: 7 * 24 * 60 },
  }),
  defineTask({
    name: writeMemoryTask,
    description: 'Turns a memory candidate into a memory.',
    command_type: WRITE_MEMORY,
    function_name: WRITE_MEMORY,
    ingress_types: ['user_request', 'agent_action'],
    required_inputs: ['memory_candidate_id'],
    sync_allowed: true,
    memory_write_possible: true,
  }),
  defineFunction({
    name: WRITE_MEMORY,
    plan: (payload) => [{ effect_type: 'memory.write', payload }],
  }),
  defineCommandType({
    name: FORGET_MEMORY,
    description: 'Erase everything that is known about a subject; `concord memory erasure <id>` shows what that is.',
    payload: z.strictObject({ memory_erasure_id: z.uuid() }),
    fields: { memory_erasure_id: 'internal' },
    side_effects: ['memory.erase'],
    error_classes: [...failures, 'transient_connector_error'],
    cancellable_by: ['requester', 'admin'],
    audit: ['memory_forget_requested', 'memory_erased'],
    risk_level: 'medium',
    policies: ['permission', 'data_safety', 'memory_forget'],
    approval: { required: true, approver: DATA_OWNER, expires_in_minutes: 7 * 24 * 60 },
  }),
  defineTask({
    name: forgetMemoryTask,
    description: 'Erases what is known about a subject and leaves a certificate.',
    command_type: FORGET_MEMORY,
    function_name: FORGET_MEMORY,
    ingress_types: ['user_request'],
    required_inputs: ['memory_erasure_id'],
    async_required: true,
    approval_required: true,
    memory_write_possible: true,
    risk_level: 'medium',
  }),
  defineFunction({
    name: FORGET_MEMORY,
    plan: (payload) => [{ effect_type: 'memory.erase', payload }],
  }),
  defineCommandType({
    name: REVIEW_STALE_MEMORY,
    description: 'End what is over and give an end to what nobody has confirmed for long.',
    payload: z.strictObject({}),
    side_effects: ['memory.review'],
    error_classes: failures,
    cancellable_by: ['admin'],
    audit: ['memory_reviewed'],
    policies: ['permission'],
  }),
  defineTask({
    name: reviewStaleMemoryTask,
    description: 'Reviews the memories of a workspace.',
    command_type: REVIEW_STALE_MEMORY,
    function_name: REVIEW_STALE_MEMORY,
    ingress_types: ['scheduled_trigger', 'user_request'],
    async_required: true,
    memory_write_possible: true,
  }),
  defineFunction({
    name: REVIEW_STALE_MEMORY,
    plan: () => [{ effect_type: 'memory.review', payload: {} }],
  }),
]
