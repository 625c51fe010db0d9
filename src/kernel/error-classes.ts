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

/** Returns undefined when neither the agent nor its environment failed: the action was refused, and a retry would be refused again. */
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
