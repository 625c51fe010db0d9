/** The closed list of ways in which work fails, and for each whether doing it again can help: the first word on every retry. */

/** The cause may be gone a moment later. */
export const retryableErrorClasses = [
  'transient_connector_error',
  'rate_limited',
  'timeout',
  'temporary_database_error',
] as const

/** The same call gives the same answer; `internal_error` is everything that nobody has classified. */
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

/** How an attempt of a mission task failed: around the agent, or in what the agent delivered. */
export const failureTypes = ['infrastructure', 'quality'] as const
export type FailureType = (typeof failureTypes)[number]

/**
 * What a retry is decided on. Missions speak of failure types, because another attempt of an agent is not the same call again;
 * `work_failed` is a job or a dataflow task that ended badly for a reason of its own and whose owner promises that it may run again.
 */
export const failureClasses = [...errorClasses, ...failureTypes, 'work_failed'] as const
export type FailureClass = (typeof failureClasses)[number]

const finals: ReadonlySet<string> = new Set(finalErrorClasses)
const knownErrors: ReadonlySet<string> = new Set(errorClasses)
const knownFailures: ReadonlySet<string> = new Set(failureClasses)

export function isErrorClass(name: string): name is ErrorClass {
  return knownErrors.has(name)
}

/** False for whatever is not in the list: an unknown class is an unclassified error. */
export function isRetryable(name: string): boolean {
  return knownFailures.has(name) && !finals.has(name)
}

/** Reads a class that came from outside; what is missing or unknown is `internal_error`. */
export function classifyError(name: unknown): ErrorClass {
  return typeof name === 'string' && isErrorClass(name) ? name : 'internal_error'
}

/** Undefined: neither the agent nor its surroundings are to blame, somebody said no, and another attempt would be refused again. */
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
