/** Where the example tasks find their outside world, and how patient they are with it. */
import { type Definition, registerRetry } from '#domains/commands'
import { retryableErrorClasses } from '#kernel/error-classes'
import { defineRetryPolicy } from '#kernel/retry-policy'

export type ExampleOptions = {
  /** The address of the hotel vendor, `examples/hotel-vendor.ts`. */
  readonly vendorUrl: string
  /** Outgoing letters and the copy of the vendor's rates are files in it. */
  readonly folder: string
  /** Between two attempts; left out, a person would call it patient. */
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

/** What every operation of the examples says about being tried again. */
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

/** Undoing has a policy of its own for all of Concord; only a program in a hurry brings another pace. */
export function undoRetry({ backoffSeconds }: ExampleOptions): readonly Definition[] {
  if (backoffSeconds === undefined) return []
  const policy = { operation: 'compensation', retryable: retryableErrorClasses, requires_idempotency_key: true }
  return [registerRetry(defineRetryPolicy({ ...policy, backoff_seconds: backoffSeconds }))]
}
