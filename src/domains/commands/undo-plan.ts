/** Decides for each effect of a command whether it can be undone now, and if not, why. Every undo starts from this plan. Pure. */
import { decodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { planCompensation, type UndoStep } from '#kernel/saga/compensation'
import type { Catalog } from './catalog/open-catalog.ts'
import type { ForeignUndo, StoredCommand, StoredEffect } from './command-table.ts'
import { isInDoubt } from './standing.ts'
import { REQUEST_APPROVAL, REQUEST_INPUT } from './tasks.ts'

/** The command type of an undo. */
export const UNDO_TYPE = 'undo_command'

/** The command that an Undo Command undoes, from its payload. */
export function undoneIdOf(asked: JsonObject): string {
  const { command_id: id } = asked
  const decoded = typeof id === 'string' ? decodeId('command', id) : undefined
  return decoded?.ok ? decoded.value : ''
}

/** The last command that was asked to undo a command. */
export type UndoLink = Pick<StoredCommand, 'command_id' | 'status'>

/** The undo is under way, or has undone the command. */
export const isInForce = ({ status }: Pick<UndoLink, 'status'>) =>
  status !== 'failed' && status !== 'cancelled' && status !== 'expired'

/** An undo by another command as an effect of the command that is undone: the fields that plans read. */
export function asEffect({ effect_id, status }: Pick<ForeignUndo, 'effect_id' | 'status'>): StoredEffect {
  const row = { domain_effect_id: `undo of ${effect_id}`, status, compensates_effect_id: effect_id, effect_type: '' }
  return { ...row, declared_compensation: null } as StoredEffect
}

/** Why an effect stays as it is. `in_doubt`: it, or its undo, has begun and its outcome is not known yet. */
export type KeptWhy = 'no_undo_declared' | 'already_undone' | 'in_doubt' | 'too_late'

type KeptEffect = { readonly effect: StoredEffect; readonly why: KeptWhy }

export type UndoPlan = {
  /** Last effect first. */
  readonly steps: readonly UndoStep[]
  readonly kept: readonly KeptEffect[]
  /** Effects with an unknown outcome. Each is settled before anything is undone. */
  readonly unsettled: readonly string[]
  /** Something was done, may have been done, or was undone. */
  readonly isTouched: boolean
}

/** Takes all effects of a command, also its compensations. Questions to people and reads change nothing, so they are not in the plan. */
export function planUndo(
  effects: readonly StoredEffect[],
  { effects: known, undos }: Pick<Catalog, 'effects' | 'undos'>,
  at: Date,
): UndoPlan {
  const { steps: all, unsettled } = planCompensation(effects)
  const steps = all.filter((step) => step.begun_as !== null || !isTooLate(step, effects, undos, at))
  const changing = effects.filter(({ effect_type }) => {
    const isAsk = effect_type === REQUEST_APPROVAL || effect_type === REQUEST_INPUT
    return !isAsk && known.get(effect_type)?.definition.class !== 'read'
  })
  const kept = changing.flatMap((effect): KeptEffect[] => {
    const { domain_effect_id: id, status, compensates_effect_id } = effect
    if (compensates_effect_id !== null) return []
    if (status === 'executing' || isInDoubt(effect)) return [{ effect, why: 'in_doubt' }]
    if (status !== 'succeeded' || steps.some(({ effect_id }) => effect_id === id)) return []
    if (effect.declared_compensation === null) return [{ effect, why: 'no_undo_declared' }]
    return [{ effect, why: all.some(({ effect_id }) => effect_id === id) ? 'too_late' : 'already_undone' }]
  })
  const isTouched = changing.some(
    (effect) => effect.status === 'succeeded' || effect.status === 'executing' || isInDoubt(effect),
  )
  return { steps, kept: kept.toReversed(), unsettled, isTouched: isTouched || unsettled.length > 0 }
}

function isTooLate(step: UndoStep, effects: readonly StoredEffect[], undos: Catalog['undos'], at: Date): boolean {
  const within = undos.get(step.compensation)?.undo.within_ms
  const done = effects.find(({ domain_effect_id }) => domain_effect_id === step.effect_id)?.completed_at
  return within !== undefined && done instanceof Date && done.getTime() + within < at.getTime()
}
