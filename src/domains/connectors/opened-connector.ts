/** A connector as a process holds it: its declaration, itself, and how it has fared lately. */
import type { ErrorClass } from '#kernel/error-classes'
import { type BreakerVerdict, closedBreaker, decideBreaker, nextBreaker } from './breaker.ts'
import type { Connector } from './connector.ts'
import type { BreakerTerms, ConnectorDefinition } from './define-connector.ts'

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
