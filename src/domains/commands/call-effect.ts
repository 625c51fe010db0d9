/** Makes one call under three limits: its own time, the life of the turn, and nothing but JSON coming back. */
import { classifyError } from '#kernel/error-classes'
import { guardValue } from '#kernel/json-value-guard'
import { redactText, redactValue } from '#kernel/secret-shapes'
import { type AwaitedEnd, EffectFailure, EffectPending } from './catalog/effect-definition.ts'
import type { AttemptFailure } from './decide-outcome.ts'
import { renewTurn } from './sql/take-turn.ts'
import type { Turn } from './turn.ts'

export type CallOutcome<T> =
  | { readonly t: 'answered'; readonly value: T }
  | { readonly t: 'failed'; readonly failure: AttemptFailure }
  | { readonly t: 'pending'; readonly commandId: string; readonly wanted: AwaitedEnd }
  /** A later turn has the command: whatever this call did will be found by it. */
  | { readonly t: 'lost' }

/** Thrown inside a call that must not be made: a later turn has the command. */
export class TurnLost extends Error {}

/** What the signal of a call says once the call has ended: a word, since an error of its own per call would cost 8 µs. */
export const CALL_OVER = 'the call has ended'

/** The database was away for as long as the turn lives: by now another process may have taken it over. */
const UNRENEWED = 'the turn could not be renewed'
/** Renewals in the life of a turn. */
const RENEWALS = 3

const ERROR_CHARS_MAX = 500

/** The turn is renewed while the call lasts; when it is lost the call is told to stop and its answer is not used. */
export async function callWithin<T>(
  turn: Turn,
  timeoutMs: number,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<CallOutcome<T>> {
  const stop = new AbortController()
  const ended = new AbortController()
  const lost = () => stop.abort(turn.signal.reason)
  if (turn.signal.aborted) lost()
  turn.signal.addEventListener('abort', lost)
  const answer = call(stop.signal).then(
    (value): CallOutcome<T> => ({ t: 'answered', value }),
    (error: unknown): CallOutcome<T> => {
      if (error instanceof TurnLost) return { t: 'lost' }
      if (error instanceof EffectPending) return { t: 'pending', commandId: error.commandId, wanted: error.wanted }
      return { t: 'failed', failure: failureOf(error) }
    },
  )
  const late = turn.deps.sleep(timeoutMs, ended.signal).then(
    (): CallOutcome<T> => ({
      t: 'failed',
      failure: { errorClass: 'timeout', message: `no answer within ${timeoutMs} ms`, happened: 'unknown' },
    }),
  )
  try {
    return await Promise.race([answer, late, watchTurn(turn, ended.signal, () => stop.abort(UNRENEWED))])
  } finally {
    turn.signal.removeEventListener('abort', lost)
    stop.abort(CALL_OVER)
    ended.abort(CALL_OVER)
  }
}

/**
 * Settles only when the turn is lost. A renewal that fails says nothing about that: whoever gave the call up for it would hand the row on
 * while the deed is under way, and the next one, who asks and finds nothing yet, would do it again. When none of them got through, the call
 * is told to stop, and its answer is waited for all the same.
 */
async function watchTurn(turn: Turn, ended: AbortSignal, giveUp: () => void): Promise<{ t: 'lost' }> {
  let missed = 0
  for (;;) {
    await turn.deps.sleep(turn.leaseMs / RENEWALS, ended)
    if (ended.aborted) return new Promise(() => {})
    const renewing = turn.deps.db.run(renewTurn, [turn.command.command_id, turn.token, turn.leaseMs])
    const rows = await renewing.catch(() => undefined)
    if (rows?.length === 0) {
      turn.isLost = true
      return { t: 'lost' }
    }
    missed = rows ? 0 : missed + 1
    if (missed >= RENEWALS) giveUp()
  }
}

/** What nobody classified is our own fault, and whether it happened nobody knows. */
export function failureOf(error: unknown): AttemptFailure {
  const text = error instanceof Error ? error.message : 'the handler threw something that is no error'
  // Providers like to repeat the credential that they did not like.
  const message = redactText(text).slice(0, ERROR_CHARS_MAX)
  if (error instanceof EffectFailure) {
    const { happened, retryAfterMs } = error
    return { errorClass: classifyError(error.errorClass), message, happened, retryAfterMs }
  }
  return { errorClass: 'internal_error', message, happened: 'unknown' }
}

/** A result that cannot be stored is no result; the deed may have been done all the same. Secrets in it are not kept. */
export function asResult(
  value: unknown,
): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly failure: AttemptFailure } {
  if (value === undefined || value === null) return { ok: true, value: {} }
  const guarded = guardValue(value)
  if (guarded.ok) return { ok: true, value: redactValue(guarded.value) }
  return {
    ok: false,
    failure: {
      errorClass: 'internal_error',
      message: `the result cannot be stored: ${guarded.reason}`,
      happened: 'unknown',
    },
  }
}
