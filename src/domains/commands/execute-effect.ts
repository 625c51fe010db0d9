/** Carries out one effect that has been begun: the call, and the record of what came of it. */
import { decideStepKey } from '#kernel/retry-policy'
import { failpoint } from '#store'
import { callOf } from './begin-effect.ts'
import { asResult, callWithin, TurnLost } from './call-effect.ts'
import type { StoredEffect } from './command-row.ts'
import type { EffectHandler } from './effect-handler.ts'
import type { WriteDraft } from './draft-write.ts'
import { type EffectEnd, recordDone } from './record-outcome.ts'
import { recordFailure } from './settle-attempt.ts'
import { recordPending } from './step-blocked.ts'
import { isStillHeld, type Turn } from './turn.ts'

/** The effect has been begun by this turn. `alongside` adds to the record: usually the beginning of what comes next. */
export async function callAndRecord(
  turn: Turn,
  effect: StoredEffect,
  handler: EffectHandler,
  alongside: (draft: WriteDraft, done: StoredEffect) => void,
): Promise<EffectEnd> {
  const key = decideStepKey(handler.retry, effect.idempotency_key)
  if (!key.ok)
    return recordFailure(
      turn,
      effect,
      handler,
      { errorClass: 'validation_error', message: key.reason, happened: 'no' },
      [],
    )
  await failpoint(handler.isUndo ? 'commands.undo_begun' : 'commands.effect_begun')
  const emitted: string[] = []
  const outcome = await callWithin(turn, handler.timeoutMs, async (signal) => {
    const call = callOf(turn, effect, signal, (name) => void emitted.push(name))
    // What cannot dedupe by our key is looked up before it is done once more.
    const known =
      handler.class === 'queryable' && effect.attempt > 1 && handler.find
        ? await handler.find(call)
        : { found: false as const }
    if (known.found) return known.result
    if (!(await isStillHeld(turn))) throw new TurnLost()
    return handler.run(call)
  })
  await failpoint(handler.isUndo ? 'commands.undo_called' : 'commands.effect_called')
  if (outcome.t === 'lost') return { t: 'lost' }
  if (outcome.t === 'pending') return recordPending(turn, effect, outcome)
  const result = outcome.t === 'answered' ? asResult(outcome.value) : outcome
  if ('ok' in result && result.ok)
    return recordDone(turn, effect, handler, { result: result.value, emitted, readBack: undefined }, alongside)
  const failure = 'failure' in result ? result.failure : undefined
  return failure ? recordFailure(turn, effect, handler, failure, emitted) : { t: 'lost' }
}
