/** Carries out one effect that has been begun: the call, and the record of what came of it. */
import { decideStepKey } from '#kernel/retry-policy'
import { point } from '#store'
import { callOf } from './begin-effect.ts'
import { asResult, callWithin, TurnLost } from './call-effect.ts'
import type { StoredEffect } from './command-row.ts'
import type { Deed } from './deed.ts'
import type { WriteDraft } from './draft-write.ts'
import { type EffectEnd, recordDone } from './record-outcome.ts'
import { recordFailure } from './settle-attempt.ts'
import { recordPending } from './step-blocked.ts'
import { isStillHeld, type Turn } from './turn.ts'

/** The effect has been begun by this turn. `alongside` adds to the record: usually the beginning of what comes next. */
export async function callAndRecord(
  turn: Turn,
  effect: StoredEffect,
  deed: Deed,
  alongside: (draft: WriteDraft, done: StoredEffect) => void,
): Promise<EffectEnd> {
  const key = decideStepKey(deed.retry, effect.idempotency_key)
  if (!key.ok)
    return recordFailure(
      turn,
      effect,
      deed,
      { errorClass: 'validation_error', message: key.reason, happened: 'no' },
      [],
    )
  const begun = point(deed.isUndo ? 'commands.undo_begun' : 'commands.effect_begun')
  if (begun) await begun
  const emitted: string[] = []
  const outcome = await callWithin(turn, deed.timeoutMs, async (signal) => {
    const call = callOf(turn, effect, signal, (name) => void emitted.push(name))
    // What cannot dedupe by our key is looked up before it is done once more.
    const known =
      deed.class === 'queryable' && effect.attempt > 1 && deed.find ? await deed.find(call) : { found: false as const }
    if (known.found) return known.result
    if (!(await isStillHeld(turn))) throw new TurnLost()
    return deed.run(call)
  })
  const called = point(deed.isUndo ? 'commands.undo_called' : 'commands.effect_called')
  if (called) await called
  if (outcome.t === 'lost') return { t: 'lost' }
  if (outcome.t === 'pending') return recordPending(turn, effect, outcome)
  const result = outcome.t === 'answered' ? asResult(outcome.value) : outcome
  if ('ok' in result && result.ok)
    return recordDone(turn, effect, deed, { result: result.value, emitted, readBack: undefined }, alongside)
  const failure = 'failure' in result ? result.failure : undefined
  return failure ? recordFailure(turn, effect, deed, failure, emitted) : { t: 'lost' }
}
