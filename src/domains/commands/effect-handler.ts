/** Finds the handler of a row of `domain_effects`: the effect's own, or the undo that its compensation names. Pure. */
import { KernelFault } from '#kernel/errors'
import { compensationPolicy, type CompiledRetry, compilePolicy } from '#kernel/retry-policy'
import type { EffectCall, EffectClass, LookupResult, UndoCall } from './catalog/effect-definition.ts'
import type { Catalog } from './catalog/open-catalog.ts'
import type { CommandWithEffects, ReadBack, StoredEffect } from './command-table.ts'

export type EffectHandler = {
  readonly class: EffectClass
  readonly timeoutMs: number
  readonly retry: CompiledRetry
  /** The names an undo must stick to. */
  readonly produces: readonly string[]
  readonly isUndo: boolean
  readonly run: (call: EffectCall) => Promise<unknown>
  readonly find: ((call: EffectCall) => Promise<LookupResult>) | undefined
}

export function readBackOf({ read_back }: Pick<StoredEffect, 'read_back'>): ReadBack {
  // Written by this room alone.
  return (read_back as ReadBack | null) ?? {}
}

/** Undefined: the catalog of this process does not know it. */
export function findHandler(
  catalog: Catalog,
  { effects }: Pick<CommandWithEffects, 'effects'>,
  effect: StoredEffect,
): EffectHandler | undefined {
  if (effect.compensates_effect_id !== null) return findUndo(catalog, effects, effect)
  const definition = catalog.effects.get(effect.effect_type)?.definition
  return (
    definition && {
      class: definition.class,
      timeoutMs: definition.timeout_ms,
      retry: retryOf(catalog, definition.operation),
      produces: definition.produces,
      isUndo: false,
      run: definition.do,
      find: definition.find,
    }
  )
}

function findUndo(catalog: Catalog, effects: readonly StoredEffect[], effect: StoredEffect): EffectHandler | undefined {
  const undone = effects.find(({ domain_effect_id }) => domain_effect_id === effect.compensates_effect_id)
  const undo = catalog.undos.get(undone?.declared_compensation ?? '')?.undo
  if (!undo || !undone) return undefined
  const asUndo = (call: EffectCall): UndoCall => ({
    ...call,
    undone: {
      effectId: undone.domain_effect_id,
      idempotencyKey: undone.idempotency_key ?? undone.domain_effect_id,
      payload: undone.effect_payload,
      result: undone.result,
    },
  })
  const { find } = undo
  return {
    class: undo.class,
    timeoutMs: undo.timeout_ms,
    retry: retryOf(catalog, compensationPolicy.operation),
    produces: undo.produces,
    isUndo: true,
    run: (call) => undo.do(asUndo(call)),
    find: find && ((call) => find(asUndo(call))),
  }
}

export function retryOf({ retries }: Catalog, operation: string): CompiledRetry {
  const compiled = compilePolicy(operation, retries)
  if (!compiled.ok) throw new KernelFault('commands.retry.missing', compiled.reason)
  return compiled.value
}
