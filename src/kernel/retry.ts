/** The only retry decision: after this failed attempt, wait how long, or stop for which reason. */
import type { Random } from './clock.ts'
import { KernelFault } from './errors.ts'
import { type FailureClass, isRetryable } from './error-classes.ts'
import { type Backoff, boundedWait, delayAfter } from './retry-backoff.ts'

/** Three retries are four attempts. Two types keep the two counts from being confused. */
export type RetryLimit = { readonly retries: number } | { readonly attempts: number }

export type RetrySettings = {
  readonly limit: RetryLimit
  readonly backoff: Backoff
  /** The retryable classes; a class that is final by nature is never retried, listed or not. */
  readonly retryable: readonly FailureClass[]
}

export type FailedAttempt = {
  /** The failed attempt, counted from 1. */
  readonly attempt: number
  readonly errorClass: FailureClass
  readonly random: Random
  /** The wait that the other system requested: the next attempt waits at least this long, within bounds. */
  readonly askedToWaitMs?: number | undefined
}

export type RetryDecision =
  | { readonly retry: true; readonly delayMs: number; readonly nextAttempt: number }
  | { readonly retry: false; readonly why: StopReason }

/** `not_retryable`: by nature; `not_listed`: by the settings; `exhausted`: this was the last allowed attempt. */
export type StopReason = 'not_retryable' | 'not_listed' | 'exhausted'

export function decideRetry(settings: RetrySettings, failed: FailedAttempt): RetryDecision {
  const { attempt, errorClass, random, askedToWaitMs } = failed
  assertAttempt(attempt)
  if (!isRetryable(errorClass)) return { retry: false, why: 'not_retryable' }
  if (!settings.retryable.includes(errorClass)) return { retry: false, why: 'not_listed' }
  if (attempt >= attemptsAllowed(settings.limit)) return { retry: false, why: 'exhausted' }
  const { backoff } = settings
  const delayMs = Math.max(delayAfter(backoff, attempt, random), boundedWait(backoff, askedToWaitMs))
  return { retry: true, delayMs, nextAttempt: attempt + 1 }
}

/** Returns how many times the work may run in total. */
export function attemptsAllowed(limit: RetryLimit): number {
  return 'retries' in limit ? limit.retries + 1 : limit.attempts
}

/** Returns how many retries are left while attempt number `attempt` runs or has failed; never below zero. */
export function retriesRemaining(limit: RetryLimit, attempt: number): number {
  assertAttempt(attempt)
  return Math.max(0, attemptsAllowed(limit) - attempt)
}

/** Returns the stricter of two limits: a part of a plan may tighten the limit of the whole, never widen it. */
export function tightenLimit(settings: RetrySettings, limit: RetryLimit): RetrySettings {
  return attemptsAllowed(limit) < attemptsAllowed(settings.limit) ? { ...settings, limit } : settings
}

/** The retry data that events and rows record with an attempt. */
export type RetryContract = {
  readonly attempt: number
  readonly max_attempts: number
  /** When the next attempt may start; null when there is none. */
  readonly run_after: Date | null
  readonly last_error: string
  readonly error_class: FailureClass
}

export function describeFailure(
  settings: RetrySettings,
  failed: FailedAttempt & { readonly lastError: string; readonly at: Date },
): RetryContract {
  const decision = decideRetry(settings, failed)
  return {
    attempt: failed.attempt,
    max_attempts: attemptsAllowed(settings.limit),
    run_after: decision.retry ? new Date(failed.at.getTime() + decision.delayMs) : null,
    last_error: failed.lastError,
    error_class: failed.errorClass,
  }
}

/** Throws, since only code passes the number: counting from 0 would grant one attempt too many. */
function assertAttempt(attempt: number): void {
  if (Number.isSafeInteger(attempt) && attempt >= 1) return
  throw new KernelFault('retry.attempt.invalid', `Attempts are counted from 1; got ${attempt}.`, { attempt })
}
