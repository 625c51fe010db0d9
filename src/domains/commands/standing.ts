/** Whether anything that a command did stands. If nothing does, its end frees the contract's key, and the thing can be asked for again. Pure. */
import type { CommandWithEffects, StoredEffect } from './command-table.ts'
import { readBackOf, REQUEST_APPROVAL, REQUEST_INPUT } from './tasks.ts'

/**
 * Something that the command did outside stands, or may stand: an effect that succeeded and was not undone, one whose outcome is open or in doubt, or one
 * that failed with the command that it had started. Effects that only read change nothing, and those that an operator has released do not count.
 */
export function effectsThatStand<E extends StoredEffect>(effects: readonly E[]): readonly E[] {
  const undone = new Set(
    effects.filter(({ status }) => status === 'succeeded').map(({ compensates_effect_id }) => compensates_effect_id),
  )
  return effects.filter((effect) => {
    const { effect_type, status, compensates_effect_id, reversibility, domain_effect_id } = effect
    const isAsk = effect_type === REQUEST_APPROVAL || effect_type === REQUEST_INPUT
    if (compensates_effect_id !== null || isAsk || isReleased(effect)) return false
    if (status === 'succeeded') return reversibility !== 'reversible' && !undone.has(domain_effect_id)
    const { command_id: awaited, wanted } = readBackOf(effect)
    // A compensation that was asked for is the other command's own.
    const hasStarted = awaited !== undefined && wanted !== 'compensated'
    return status === 'executing' || isInDoubt(effect) || (status === 'failed' && hasStarted)
  })
}

const isReleased = (effect: StoredEffect) => readBackOf(effect).released === true

/** It failed because Concord refused what it returned, so it may have acted outside. */
export function isInDoubt(effect: StoredEffect): boolean {
  const { status, reversibility } = effect
  return status === 'failed' && reversibility !== 'reversible' && readBackOf(effect).outcome === 'unknown'
}

/** The command has ended, and the same thing can be asked for again. A command that succeeded must have been undone or released: `effects` contains the undos too. */
export function isFreed({ command, effects }: CommandWithEffects): boolean {
  const own = new Set(effects.map(({ domain_effect_id }) => domain_effect_id))
  const isUndone = effects.some(({ compensates_effect_id: of, status }) => own.has(of ?? '') && status === 'succeeded')
  const isOver = command.status !== 'succeeded' || isUndone || effects.some(isReleased)
  return command.completed_at !== null && isOver && effectsThatStand(effects).length === 0
}

/** How to ask again for what the command did not do. Undefined: it may still do it, or something that it did stands. */
export function sayAgain(found: CommandWithEffects): string | undefined {
  const { contract_key, idempotency_key } = found.command
  if (contract_key !== null || !isFreed(found)) return undefined
  return idempotency_key === null
    ? 'Submit the same request again; it becomes a new command.'
    : 'Submit the same request again, without an idempotency_key or with a new one; it becomes a new command.'
}
