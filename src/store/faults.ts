/**
 * Classifies an exception of the driver: not done, retryable, or unknown. Only an answer of the
 * server proves "not done"; a broken connection may have committed.
 */
import { type Refusal, type RefusalCode, refuse } from '#kernel/refusal'

export type WriteOutcome =
  /** The server answered with an error: the transaction is rolled back. */
  | 'not_done'
  /** Rolled back, and Postgres asks for a retry. */
  | 'again'
  /** No answer, or an answer from a server that is shutting down: it may have committed. */
  | 'unknown'

const AGAIN = new Set(['40001', '40P01'])
/** Sent by a backend that is ending (57P0x) or that could not send more (class 08). */
const ENDING = /^(57P0[1-5]|08[0-9A-Z]{3})$/
const SQL_STATE = /^[0-9A-Z]{5}$/
/** Query builders wrap the driver's error; the bound ends a cycle of causes. */
const CAUSES_MAX = 8

type DriverError = Error & { readonly code?: unknown; readonly constraint?: unknown; readonly severity?: unknown }

/** Returns the driver's own error inside any wrapper: the first with a SQLSTATE and a severity. */
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

/** Returns the name of the violated constraint. */
export function constraintOf(error: unknown): string | undefined {
  const constraint = findServerError(error)?.constraint
  return typeof constraint === 'string' && constraint !== '' ? constraint : undefined
}

/** For an exception of a statement that the driver had received. */
export function outcomeOf(error: unknown): WriteOutcome {
  const state = sqlStateOf(error)
  if (state === undefined || ENDING.test(state)) return 'unknown'
  return AGAIN.has(state) ? 'again' : 'not_done'
}

/** The driver stopped waiting (`query_timeout`): the statement may still run, and its connection still owes an answer. */
export function isSilence(error: unknown): error is Error {
  return error instanceof Error && error.message === 'Query read timeout'
}

/** Turns a constraint violation into the refusal that the caller declared for it; anything else stays an exception. */
export function refuseConstraint(
  error: unknown,
  refusals: Readonly<Record<string, { readonly code: RefusalCode; readonly reason: string }>>,
): Refusal | undefined {
  const name = constraintOf(error)
  const declared = name !== undefined && Object.hasOwn(refusals, name) ? refusals[name] : undefined
  return declared && refuse(declared.code, declared.reason, { facts: { constraint: name } })
}

/** The write may or may not have happened. Reported neither as success nor as failure; a retry with the same key settles it. */
export class UnknownOutcome extends Error {
  readonly code = 'unknown_outcome'

  constructor(what: string, cause: unknown) {
    super(`The outcome of ${what} is unknown: the connection broke before the answer.`, { cause })
    this.name = 'UnknownOutcome'
  }
}
