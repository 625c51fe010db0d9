/** What the memory commands do: each effect is one transaction of the memory room, keyed by its row, so that a repeat changes nothing. */
import { eraseSubject, type MemoryDeps, reviewStaleMemory, unwriteMemory, writeMemory } from '#domains/memory'
import type { JsonObject } from '#kernel/json-value'
import type { Decision } from '#kernel/refusal'
import { outcomeOf, sqlStateOf } from '#store'
import { isPassing } from '../call-effect.ts'
import { byWorker } from '../change.ts'
import type { Definition } from '../catalog/definitions.ts'
import { defineEffect, type EffectCall, EffectFailure } from '../catalog/effect-definition.ts'

export function memoryEffects(memory: MemoryDeps): readonly Definition[] {
  const workerOf = ({ traceId }: Pick<EffectCall, 'traceId'>) => ({ ...byWorker, traceId })
  const candidate = (call: Pick<EffectCall, 'workspaceId' | 'payload'>) => ({
    workspaceId: call.workspaceId,
    candidateId: textOf(call.payload, 'memory_candidate_id'),
  })
  return [
    defineEffect({
      effect_type: 'memory.write',
      class: 'keyed',
      bounded: true,
      do: (call) => done(() => writeMemory(memory, workerOf(call), { ...candidate(call), commandId: call.commandId })),
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
    defineEffect({
      effect_type: 'memory.erase',
      class: 'keyed',
      do: async (call) => {
        const erasureId = textOf(call.payload, 'memory_erasure_id')
        const { workspaceId, commandId } = call
        const erased = await done(() => eraseSubject(memory, workerOf(call), { workspaceId, erasureId, commandId }))
        return { memory_erasure_id: erased.memory_erasure_id, certificate_hash: erased.certificate_hash }
      },
    }),
    defineEffect({
      effect_type: 'memory.review',
      class: 'keyed',
      timeout_ms: 600_000,
      do: ({ workspaceId, commandId, signal, traceId }) =>
        reviewStaleMemory(memory, workerOf({ traceId }), { workspaceId, commandId, signal }),
    }),
  ]
}

function textOf(payload: JsonObject, field: string): string {
  const value = payload[field]
  return typeof value === 'string' ? value : ''
}

const denials: readonly string[] = ['memory.forget.held', 'memory.consent.missing', 'artifacts.artifact.held']

/** A refusal was given before anything was written; a database that broke off may have committed, and the key settles it. */
async function done<T>(work: () => Promise<Decision<T>>): Promise<T> {
  const decided = await work().catch((error: unknown) => {
    const isBusy = sqlStateOf(error) !== undefined && outcomeOf(error) !== 'not_done'
    throw isBusy ? new EffectFailure('temporary_database_error', 'the database broke off') : error
  })
  if (decided.ok) return decided.value
  const said = `${decided.code}: ${decided.reason}`
  // The rows are emptied and a store does not answer: the same call again ends it.
  if (isPassing(decided)) throw new EffectFailure('transient_connector_error', said)
  throw new EffectFailure(denials.includes(decided.code) ? 'policy_denied' : 'validation_error', said)
}
