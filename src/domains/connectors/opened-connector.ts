/** A connector as a process holds it: its declaration, itself, and how it has fared lately. */
import type { ErrorClass } from '#kernel/error-classes'
import type { Connector } from './connector.ts'
import type { BreakerTerms, ConnectorDefinition } from './define-connector.ts'

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

export type OpenedConnector = {
  readonly definition: ConnectorDefinition
  readonly connector: Connector
  readonly breaker: Breaker
}

/** One per connector and process. */
export type Breaker = {
  ask(at: Date): BreakerVerdict
  tell(errorClass: ErrorClass | undefined, at: Date): void
  /** The call was not made after all: somebody else may try. */
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
    tell(errorClass, at) {
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
