/** Where the example tasks find their vendor and their files, and how long they wait. */
import { type Definition, registerRetry } from '#domains/commands'
import { retryableErrorClasses } from '#kernel/error-classes'
import { defineRetryPolicy } from '#kernel/retry-policy'

export type ExampleOptions = {
  /** The address of the hotel vendor, `examples/hotel-vendor.ts`. */
  readonly vendorUrl: string
  /** The folder of outgoing letters and of the copy of the vendor's rates. */
  readonly folder: string
  /** The pause between two attempts; the default is realistic, which is slow for a test. */
  readonly backoffSeconds?: readonly number[]
  /** How long a call of the vendor may take. */
  readonly callTimeoutMs?: number
}

const BACKOFF_SECONDS = [2, 10, 60]
const CALL_TIMEOUT_MS = 10_000
/** Four: the vendor of the examples goes wrong up to three times in a row. */
const ATTEMPTS_MAX = 4

export function callTimeoutOf({ callTimeoutMs = CALL_TIMEOUT_MS }: ExampleOptions): number {
  return callTimeoutMs
}

/** The retry policy of every operation of the examples. */
export function retryOf(operation: string, { backoffSeconds = BACKOFF_SECONDS }: ExampleOptions): Definition {
  return registerRetry(
    defineRetryPolicy({
      operation,
      retryable: retryableErrorClasses,
      max_attempts: ATTEMPTS_MAX,
      backoff_seconds: backoffSeconds,
      requires_idempotency_key: true,
    }),
  )
}

/** Compensation has one retry policy for all of Concord; a test replaces its delays. */
export function undoRetry({ backoffSeconds }: ExampleOptions): readonly Definition[] {
  if (backoffSeconds === undefined) return []
  const policy = { operation: 'compensation', retryable: retryableErrorClasses, requires_idempotency_key: true }
  return [registerRetry(defineRetryPolicy({ ...policy, backoff_seconds: backoffSeconds }))]
}
