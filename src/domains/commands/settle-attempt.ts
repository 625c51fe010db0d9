/** What is written down after an attempt that did not simply succeed: a repeat at its time, a failure, a look-up, or a question. */
import { begin, callOf } from './begin-effect.ts'
import { asResult, callWithin } from './call-effect.ts'
import { readBackOf, type StoredEffect } from './command-row.ts'
import { type AttemptFailure, decideAfterFailure } from './decide-outcome.ts'
import type { EffectHandler } from './effect-handler.ts'
import { haltInto } from './halt-compensation.ts'
import { type EffectEnd, recordDone, recordUnknown } from './record-outcome.ts'
import { recordPending } from './step-blocked.ts'
import { commitTurn, draftOf, type Turn } from './turn.ts'
import { boundedWait } from '#kernel/retry-backoff'
import { failpoint } from '#store'
import { byWorker } from './deps.ts'

/** A provider that cannot be asked right now is asked again after this. */
const LOOK_AGAIN_MS = 30_000

export async function recordFailure(
  turn: Turn,
  effect: StoredEffect,
  handler: EffectHandler,
  told: AttemptFailure,
  emitted: readonly string[],
  isSettled = false,
): Promise<EffectEnd> {
  // "Not done" is said about this attempt; one before it that was cut may have done it all the same.
  const isDoubtful = !isSettled && readBackOf(effect).outcome === 'unknown'
  const failure = isDoubtful ? { ...told, happened: 'unknown' as const } : told
  const next = decideAfterFailure(handler.class, handler.retry, failure, {
    attempt: effect.attempt,
    random: turn.deps.random,
  })
  switch (next.t) {
    case 'look_up':
      return lookUp(turn, effect, handler, failure)
    case 'ask_person':
      return recordUnknown(turn, effect, failure)
    case 'fail':
      return recordFailed(turn, effect, failure, emitted)
    case 'retry':
      return recordRetry(turn, effect, failure, next.delayMs)
  }
}

/** The last word on an effect: it is known not to have happened. */
export async function recordFailed(
  turn: Turn,
  effect: StoredEffect,
  failure: AttemptFailure,
  emitted: readonly string[],
): Promise<EffectEnd> {
  const { message: error, errorClass: error_class } = failure
  const payload = { ...contractOf(effect, failure, null), emitted }
  const draft = draftOf(turn).moveEffect(
    effect,
    'failed',
    byWorker,
    { error, error_class, run_after: null },
    { payload },
  )
  if (turn.command.status === 'compensating' && effect.compensates_effect_id !== null) {
    haltInto(draft, turn, effect, failure)
    return (await commitTurn(turn, draft.done())) ? { t: 'ended' } : { t: turn.isLost ? 'lost' : 'on' }
  }
  await commitTurn(turn, draft.done())
  return { t: turn.isLost ? 'lost' : 'on' }
}

async function recordRetry(
  turn: Turn,
  effect: StoredEffect,
  failure: AttemptFailure,
  delayMs: number,
): Promise<EffectEnd> {
  const until = new Date(turn.deps.now().getTime() + delayMs)
  const { message: error, errorClass: error_class, happened } = failure
  const draft = draftOf(turn)
  draft.setEffect(effect, {
    error,
    error_class,
    run_after: until,
    read_back: { outcome: happened === 'no' ? 'not_done' : 'unknown' },
  })
  draft.tell('retry_scheduled', byWorker, contractOf(effect, failure, until), {
    type: 'effect',
    id: effect.domain_effect_id,
  })
  const isWritten = await commitTurn(turn, draft.done())
  await failpoint('commands.retry_recorded')
  return isWritten ? { t: 'wait', until } : { t: turn.isLost ? 'lost' : 'on' }
}

/** What travels with every failed attempt: attempt, max_attempts, run_after, last_error, error_class, and how long the provider asked to wait. */
function contractOf(effect: StoredEffect, failure: AttemptFailure, runAfter: Date | null) {
  return {
    effect_type: effect.effect_type,
    attempt: effect.attempt,
    max_attempts: effect.max_attempts,
    run_after: runAfter?.toISOString() ?? null,
    last_error: failure.message,
    error_class: failure.errorClass,
    happened: failure.happened,
    ...(failure.retryAfterMs === undefined ? {} : { asked_to_wait_ms: failure.retryAfterMs }),
  }
}

/** Asks the provider whether the deed was done. No answer is no knowledge: it is asked again later, or a person is. */
export async function lookUp(
  turn: Turn,
  effect: StoredEffect,
  handler: EffectHandler,
  cause: AttemptFailure,
  isCut = false,
): Promise<EffectEnd> {
  const find = handler.find
  if (!find) return recordUnknown(turn, effect, cause)
  const outcome = await callWithin(turn, handler.timeoutMs, (signal) => find(callOf(turn, effect, signal, () => {})))
  await failpoint('commands.looked_up')
  if (outcome.t === 'lost') return { t: 'lost' }
  if (outcome.t === 'pending') return recordPending(turn, effect, outcome)
  if (outcome.t === 'failed') {
    if (effect.attempt >= effect.max_attempts) return recordUnknown(turn, effect, outcome.failure)
    const delayMs = Math.max(LOOK_AGAIN_MS, boundedWait(handler.retry.backoff, outcome.failure.retryAfterMs))
    return recordRetry(turn, effect, { ...outcome.failure, happened: 'unknown' }, delayMs)
  }
  if (outcome.value.found) {
    const result = asResult(outcome.value.result)
    const value = result.ok ? result.value : {}
    return recordDone(
      turn,
      effect,
      handler,
      { result: value, emitted: handler.produces, readBack: { outcome: 'done', result: value } },
      () => {},
    )
  }
  const missing = { ...cause, happened: 'no' as const }
  const goesOn = turn.command.status === (handler.isUndo ? 'compensating' : 'running')
  // Its driver died and nothing was done: there is nobody to be patient with.
  if (isCut && goesOn && effect.attempt < effect.max_attempts) {
    await begin(turn, effect, turn.command.status)
    return { t: turn.isLost ? 'lost' : 'on' }
  }
  return goesOn ? recordFailure(turn, effect, handler, missing, [], true) : recordFailed(turn, effect, missing, [])
}
