/** The circuit breaker of a connector: after repeated failures of the provider, calls fail fast for a while. One per connector and process. */
import type { ErrorClass } from '#kernel/error-classes'
import type { BreakerTerms } from './connector.ts'

export type BreakerState = {
  /** Consecutive failures of the provider. */
  readonly failures: number
  /** Milliseconds of the clock; null: closed. */
  readonly openUntilMs: number | null
  /** A single probe call is under way. */
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

/** Counts only errors that show an unhealthy provider; a refusal is the answer of a healthy one. */
export function nextBreaker(
  state: BreakerState,
  terms: BreakerTerms,
  errorClass: ErrorClass | undefined,
  nowMs: number,
): BreakerState {
  if (!isUnhealthy(errorClass)) return closedBreaker
  const failures = state.failures + 1
  if (failures < terms.failures && !state.isProbing) return { failures, openUntilMs: null, isProbing: false }
  return { failures, openUntilMs: nowMs + terms.open_ms, isProbing: false }
}

function isUnhealthy(errorClass: ErrorClass | undefined): boolean {
  return (
    errorClass === 'transient_connector_error' || errorClass === 'timeout' || errorClass === 'temporary_database_error'
  )
}

export type Breaker = {
  ask(at: Date): BreakerVerdict
  record(errorClass: ErrorClass | undefined, at: Date): void
  /** The allowed call was not made; the next caller may try. */
  release(): void
  readonly isOpen: boolean
}

export function openBreaker(terms: BreakerTerms): Breaker {
  let state = closedBreaker
  return {
    ask(at) {
      const verdict = decideBreaker(state, terms, at.getTime())
      if (verdict.t === 'go') state = verdict.state
      return verdict
    },
    record(errorClass, at) {
      state = nextBreaker(state, terms, errorClass, at.getTime())
    },
    release() {
      state = { ...state, isProbing: false }
    },
    get isOpen() {
      return state.openUntilMs !== null
    },
  }
}
