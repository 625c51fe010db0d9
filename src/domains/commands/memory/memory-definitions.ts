/** The memory commands `write_memory`, `forget_memory` and `review_stale_memory`: their types, tasks and effects. A payload names a row of the memory room, never content or a subject. */
import { z } from 'zod'
import { textField } from '#contract'
import {
  eraseSubject,
  type MemoryDeps,
  memoryType,
  prepareWrite,
  reviewStaleMemory,
  subjectField,
  unwriteMemory,
  writeMemory,
} from '#domains/memory'
import type { Decision } from '#kernel/refusal'
import { outcomeOf, sqlStateOf, type Tx } from '#store'
import { isPassing } from '../call-effect.ts'
import { defineCommandType, defineFunction, defineTask, type Definition } from '../catalog/definitions.ts'
import { RECALL } from '../catalog/steps.ts'
import { workerActor } from '../change.ts'
import { defineEffect, type EffectCall, EffectFailure } from '../catalog/effect-definition.ts'
import { writeMemoryTask } from '../tasks.ts'
import { idIn, memoryPolicies } from './memory-policies.ts'

export const forgetMemoryTask = 'Forget Subject'

const DATA_OWNER = 'role:data_owner'

const failures = ['validation_error', 'policy_denied', 'temporary_database_error', 'internal_error'] as const

export const memoryTypeDefinitions: readonly Definition[] = [
  defineCommandType({
    name: 'write_memory',
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
    command_type: 'write_memory',
    function_name: 'write_memory',
    ingress_types: ['user_request', 'agent_action'],
    required_inputs: ['memory_candidate_id'],
    sync_allowed: true,
    memory_write_possible: true,
  }),
  defineFunction({ name: 'write_memory', plan: (payload) => [{ effect_type: 'memory.write', payload }] }),
  defineCommandType({
    name: 'forget_memory',
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
    command_type: 'forget_memory',
    function_name: 'forget_memory',
    ingress_types: ['user_request'],
    required_inputs: ['memory_erasure_id'],
    async_required: true,
    approval_required: true,
    memory_write_possible: true,
    risk_level: 'medium',
  }),
  defineFunction({ name: 'forget_memory', plan: (payload) => [{ effect_type: 'memory.erase', payload }] }),
  // The shipped schedule `memory_decay_review` fires it (`../scheduled-commands.ts`).
  defineCommandType({
    name: 'review_stale_memory',
    description: 'Expire memories that are over, and set an expiry on memories without a recent confirmation.',
    payload: z.strictObject({}),
    side_effects: ['memory.review'],
    error_classes: failures,
    cancellable_by: ['admin'],
    audit: ['memory_reviewed'],
    policies: ['permission'],
  }),
  defineTask({
    name: 'Review Stale Memory',
    description: 'Reviews the memories of a workspace.',
    command_type: 'review_stale_memory',
    function_name: 'review_stale_memory',
    ingress_types: ['scheduled_trigger', 'user_request'],
    async_required: true,
    memory_write_possible: true,
  }),
  defineFunction({ name: 'review_stale_memory', plan: () => [{ effect_type: 'memory.review', payload: {} }] }),
]

/** Everything that memory adds to the catalog of an installation. */
export function memoryDefinitions(memory: MemoryDeps): readonly Definition[] {
  return [...memoryPolicies, ...memoryTypeDefinitions, ...memoryEffects(memory)]
}

const recallInput = z.strictObject({
  subject: subjectField().optional(),
  memory_type: memoryType.optional(),
  task_type: textField(200, { charsMin: 1 }).optional(),
  connector: textField(200, { charsMin: 1 }).optional(),
  limit: z.int().min(1).max(100).optional(),
})

/** Each effect is keyed by its row: a repeat changes nothing. A memory is written in the transaction that records the outcome. */
function memoryEffects(memory: MemoryDeps): readonly Definition[] {
  const workerOf = ({ traceId }: EffectCall) => ({ ...workerActor, traceId })
  const candidate = (call: Pick<EffectCall, 'workspaceId' | 'payload'>) => ({
    workspaceId: call.workspaceId,
    candidateId: idIn(call, 'memory_candidate_id'),
  })
  return [
    defineEffect({
      effect_type: 'memory.write',
      class: 'keyed',
      outward: false,
      bounded: true,
      do: async (call) => {
        const actor = workerOf(call)
        const ref = { ...candidate(call), commandId: call.commandId }
        const prepared = await done(() => prepareWrite(memory, actor, ref))
        const write = (tx: Tx) => writeMemory(tx, memory, actor, prepared)
        // A store outside this database cannot be part of the transaction of the outcome.
        if (!memory.store.within) await done(() => memory.db.transaction(write))
        else
          call.alongside(async (tx) => {
            const written = await write(tx)
            // Consents or records have changed since they were read. A repeat decides again.
            if (!written.ok) throw new EffectFailure('temporary_database_error', written.reason, 'no')
          })
        return prepared.written
      },
      undo: {
        name: 'memory.unwrite',
        do: async (call) => {
          const undone = await done(() =>
            unwriteMemory(memory, workerOf(call), candidate({ ...call, payload: call.undone.payload })),
          )
          call.emit('memory.unwrite')
          return undone
        },
      },
    }),
    defineEffect(RECALL, {
      input: recallInput,
      class: 'read',
      bounded: true,
      async do({ input: { memory_type: type, task_type: taskType, ...query }, memory: reader }) {
        const memoryTypes = type === undefined ? undefined : [type]
        return { memory_ids: await reader.find({ ...query, taskType, memoryTypes }) }
      },
    }).source,
    defineEffect({
      effect_type: 'memory.erase',
      class: 'keyed',
      outward: false,
      do: async (call) => {
        const erasureId = idIn(call, 'memory_erasure_id')
        const { workspaceId, commandId } = call
        const erased = await done(() => eraseSubject(memory, workerOf(call), { workspaceId, erasureId, commandId }))
        return { memory_erasure_id: erased.memory_erasure_id, certificate_hash: erased.certificate_hash }
      },
    }),
    defineEffect({
      effect_type: 'memory.review',
      class: 'keyed',
      outward: false,
      timeout_ms: 600_000,
      do: (call) => reviewStaleMemory(memory, workerOf(call), call),
    }),
  ]
}

const denials: readonly string[] = ['memory.forget.held', 'memory.consent.missing', 'artifacts.artifact.held']

/** A refusal means that nothing was written. A lost database connection may have committed; the retry finds out by its key. */
async function done<T>(work: () => Promise<Decision<T>>): Promise<T> {
  const decided = await work().catch((error: unknown) => {
    const isBusy = sqlStateOf(error) !== undefined && outcomeOf(error) !== 'not_done'
    throw isBusy ? new EffectFailure('temporary_database_error', 'The connection to the database was lost.') : error
  })
  if (decided.ok) return decided.value
  const said = `${decided.code}: ${decided.reason}`
  // The rows are erased but an external store does not answer; repeating the call completes the erasure.
  if (isPassing(decided)) throw new EffectFailure('transient_connector_error', said)
  throw new EffectFailure(denials.includes(decided.code) ? 'policy_denied' : 'validation_error', said)
}
