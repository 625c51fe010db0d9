/** The closed list of error classes, and for each whether a retry can help. Every retry decision starts here. */

/** The cause may be gone a moment later. */
export const retryableErrorClasses = [
  'transient_connector_error',
  'rate_limited',
  'timeout',
  'temporary_database_error',
] as const

/** The same call gives the same answer; `internal_error` is every unclassified error. */
export const finalErrorClasses = [
  'validation_error',
  'policy_denied',
  'approval_rejected',
  'permission_denied',
  'malformed_payload',
  'internal_error',
] as const

export const errorClasses = [...retryableErrorClasses, ...finalErrorClasses] as const
export type ErrorClass = (typeof errorClasses)[number]

/** How an attempt of a mission task failed: around the agent, or in the agent's result. */
export const failureTypes = ['infrastructure', 'quality'] as const
export type FailureType = (typeof failureTypes)[number]

/** Whether an attempt begins the work, goes on with it after a clean stop, or does it again. */
export const attemptKinds = ['first', 'continuation', 'retry'] as const
export type AttemptKind = (typeof attemptKinds)[number]

export function attemptKindOf(attempt: number, continuations: number): AttemptKind {
  if (continuations > 0) return 'continuation'
  return attempt > 1 ? 'retry' : 'first'
}

/**
 * The input of a retry decision. Missions use failure types, because another attempt of an agent is not the same call again.
 * `work_failed` is a job or a dataflow task that failed for its own reason and whose owner declares that it may run again.
 */
export const failureClasses = [...errorClasses, ...failureTypes, 'work_failed'] as const
export type FailureClass = (typeof failureClasses)[number]

const finals: ReadonlySet<string> = new Set(finalErrorClasses)
const knownErrors: ReadonlySet<string> = new Set(errorClasses)
const knownFailures: ReadonlySet<string> = new Set(failureClasses)

export function isErrorClass(name: string): name is ErrorClass {
  return knownErrors.has(name)
}

/** Returns false for a class that is not in the list: an unknown class is an unclassified error. */
export function isRetryable(name: string): boolean {
  return knownFailures.has(name) && !finals.has(name)
}

/** Parses a class from outside; a missing or unknown one becomes `internal_error`. */
export function classifyError(name: unknown): ErrorClass {
  return typeof name === 'string' && isErrorClass(name) ? name : 'internal_error'
}

/**
 * Returns undefined when neither the agent nor its environment failed: the action was refused, and a retry would be refused
 * again.
 */
export function failureTypeOf(errorClass: ErrorClass): FailureType | undefined {
  switch (errorClass) {
    case 'transient_connector_error':
    case 'rate_limited':
    case 'timeout':
    case 'temporary_database_error':
    case 'internal_error':
      return 'infrastructure'
    case 'validation_error':
    case 'malformed_payload':
      return 'quality'
    case 'policy_denied':
    case 'approval_rejected':
    case 'permission_denied':
      return undefined
  }
}

/** Full codes first; otherwise the first two characters, the class of the code, decide. */
const byState: Readonly<Record<string, ErrorClass>> = {
  '40001': 'temporary_database_error', // serialization failure: retry the transaction
  '40P01': 'temporary_database_error', // deadlock: this transaction was chosen as the victim
  '25006': 'temporary_database_error', // read-only: a standby that is being promoted
  '55P03': 'temporary_database_error', // a lock was not free within lock_timeout
  '57P01': 'temporary_database_error', // the server is shutting down
  '57P02': 'temporary_database_error', // the server crashed and restarts
  '57P03': 'temporary_database_error', // the server is starting
  '57P05': 'temporary_database_error', // the connection was idle for too long
  '58030': 'temporary_database_error', // the disk did not answer
  '57014': 'timeout', // statement_timeout, or cancelled from outside
  '25P03': 'timeout', // idle_in_transaction_session_timeout
  '25P04': 'timeout', // transaction_timeout
  '42501': 'permission_denied', // insufficient privilege, row-level security
  '22P02': 'malformed_payload', // text that is not a uuid, number or json
  '22P05': 'malformed_payload', // \u0000 in jsonb
  '22021': 'malformed_payload', // bytes that are not UTF-8
}

const byClass: Readonly<Record<string, ErrorClass>> = {
  '08': 'temporary_database_error', // connection lost or refused
  '53': 'temporary_database_error', // out of connections, memory or disk
  '22': 'validation_error', // a value out of range, too long, not a date
  '23': 'validation_error', // a constraint was violated
  '28': 'permission_denied', // login refused
}

/** Maps the five-character SQLSTATE of Postgres to an error class: retryable, invalid data, or a fault. */
export function classifyPostgres(sqlState: string): ErrorClass {
  // Object.hasOwn: a state such as `constructor` must not find an inherited property.
  if (Object.hasOwn(byState, sqlState)) return byState[sqlState] ?? 'internal_error'
  const group = sqlState.slice(0, 2)
  return sqlState.length === 5 && Object.hasOwn(byClass, group)
    ? (byClass[group] ?? 'internal_error')
    : 'internal_error'
}
