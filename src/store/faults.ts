/**
 * What an exception of the driver says about the work: not done, worth doing again, or unknown. Only an answer of the
 * server makes "not done" true; a connection that broke may have committed.
 */
import { type Refusal, type RefusalCode, refuse } from '#kernel/refusal'

export type Outcome =
  /** The server answered with an error: the transaction is rolled back. */
  | 'not_done'
  /** Rolled back, and Postgres asks to try the same again. */
  | 'again'
  /** No answer, or an answer from a server that is going away: it may have committed. */
  | 'unknown'

const AGAIN = new Set(['40001', '40P01'])
/** Sent by a backend that is ending (57P0x) or that never had a chance to say more (class 08). */
const ENDING = /^(57P0[1-5]|08[0-9A-Z]{3})$/
const SQL_STATE = /^[0-9A-Z]{5}$/
/** Query builders wrap the driver's error; the bound keeps a cycle of causes from holding us. */
const CAUSES_MAX = 8

type DriverError = Error & { readonly code?: unknown; readonly constraint?: unknown; readonly severity?: unknown }

/** The driver's own error inside whatever wraps it: the first with a SQLSTATE and a severity. */
function findServerError(error: unknown): DriverError | undefined {
  let current = error
  for (let depth = 0; depth < CAUSES_MAX && current instanceof Error; depth++) {
    const candidate = current as DriverError
    if (typeof candidate.severity === 'string' && SQL_STATE.test(String(candidate.code))) return candidate
    current = current.cause
  }
  return undefined
}

export function sqlStateOf(error: unknown): string | undefined {
  const code = findServerError(error)?.code
  return typeof code === 'string' ? code : undefined
}

/** The constraint that refused the row, by name. */
export function constraintOf(error: unknown): string | undefined {
  const constraint = findServerError(error)?.constraint
  return typeof constraint === 'string' && constraint !== '' ? constraint : undefined
}

/** For an exception of a statement that had been handed to the driver. */
export function outcomeOf(error: unknown): Outcome {
  const state = sqlStateOf(error)
  if (state === undefined || ENDING.test(state)) return 'unknown'
  return AGAIN.has(state) ? 'again' : 'not_done'
}

/** The driver stopped waiting (`query_timeout`): the statement may still run, and its connection still owes an answer. */
export function isSilence(error: unknown): error is Error {
  return error instanceof Error && error.message === 'Query read timeout'
}

/** Turns a broken constraint into the refusal that the caller declared for it; anything else stays an exception. */
export function refuseConstraint(
  error: unknown,
  refusals: Readonly<Record<string, { readonly code: RefusalCode; readonly reason: string }>>,
): Refusal | undefined {
  const name = constraintOf(error)
  const declared = name !== undefined && Object.hasOwn(refusals, name) ? refusals[name] : undefined
  return declared && refuse(declared.code, declared.reason, { facts: { constraint: name } })
}

/** The write may or may not have happened. Never answered as success and never as failure; the same key settles it. */
export class UnknownOutcome extends Error {
  readonly code = 'unknown_outcome'

  constructor(what: string, cause: unknown) {
    super(`the outcome of ${what} is unknown: the connection broke before the answer`, { cause })
    this.name = 'UnknownOutcome'
  }
}
