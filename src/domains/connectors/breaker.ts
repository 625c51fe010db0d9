/** After several failures in a row nobody is sent to a provider for a while; then one call tries, and its end decides. Pure. */
import type { ErrorClass } from '#kernel/error-classes'
import type { BreakerTerms } from './define-connector.ts'

export type BreakerState = {
  /** In a row, and the provider's own. */
  readonly failures: number
  /** Milliseconds of the clock; null: closed. */
  readonly openUntilMs: number | null
  /** The one call that tries while it is open. */
  readonly isProbing: boolean
}

export const closedBreaker: BreakerState = { failures: 0, openUntilMs: null, isProbing: false }

export type BreakerVerdict =
  | { readonly t: 'go'; readonly state: BreakerState }
  | { readonly t: 'open'; readonly waitMs: number }

export function decideBreaker(state: BreakerState, terms: BreakerTerms, nowMs: number): BreakerVerdict {
  if (state.openUntilMs === null) return { t: 'go', state }
  if (nowMs < state.openUntilMs) return { t: 'open', waitMs: state.openUntilMs - nowMs }
  if (state.isProbing) return { t: 'open', waitMs: terms.open_ms }
  return { t: 'go', state: { ...state, isProbing: true } }
}

/** Only what says that the provider is unwell counts; a refusal is an answer of a healthy one. */
export function nextBreaker(
  state: BreakerState,
  terms: BreakerTerms,
  errorClass: ErrorClass | undefined,
  nowMs: number,
): BreakerState {
  if (!isUnwell(errorClass)) return closedBreaker
  const failures = state.failures + 1
  if (failures < terms.failures && !state.isProbing) return { failures, openUntilMs: null, isProbing: false }
  return { failures, openUntilMs: nowMs + terms.open_ms, isProbing: false }
}

function isUnwell(errorClass: ErrorClass | undefined): boolean {
  return (
    errorClass === 'transient_connector_error' || errorClass === 'timeout' || errorClass === 'temporary_database_error'
  )
}
