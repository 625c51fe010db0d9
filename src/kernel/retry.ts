/** One decision for every retry in the organisation: after this failed attempt, wait how long, or stop for which reason. */
import type { Random } from './clock.ts'
import { KernelFault } from './errors.ts'
import { type FailureClass, isRetryable } from './error-classes.ts'
import { type Backoff, boundedWait, delayAfter } from './retry-backoff.ts'

/** Three retries are four attempts. The two words are two types, so that no number can be read as the other one. */
export type RetryLimit = { readonly retries: number } | { readonly attempts: number }

export type RetrySettings = {
  readonly limit: RetryLimit
  readonly backoff: Backoff
  /** The classes worth another attempt; a class that is final by nature is never retried, listed or not. */
  readonly retryable: readonly FailureClass[]
}

export type FailedAttempt = {
  /** The attempt that failed, counted from 1. */
  readonly attempt: number
  readonly errorClass: FailureClass
  readonly random: Random
  /** The other side asked to be left alone for so long: the next attempt waits at least that long, within bounds. */
  readonly askedToWaitMs?: number | undefined
}

export type RetryDecision =
  | { readonly retry: true; readonly delayMs: number; readonly nextAttempt: number }
  | { readonly retry: false; readonly why: StopReason }

/** `not_retryable`: by nature; `not_listed`: by the settings; `exhausted`: the last attempt allowed was this one. */
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

/** How many times the work may run in all. */
export function attemptsAllowed(limit: RetryLimit): number {
  return 'retries' in limit ? limit.retries + 1 : limit.attempts
}

/** How many retries are left while attempt number `attempt` runs or has failed; never below zero. */
export function retriesRemaining(limit: RetryLimit, attempt: number): number {
  assertAttempt(attempt)
  return Math.max(0, attemptsAllowed(limit) - attempt)
}

/** The stricter of two limits: a part of a plan may tighten what the whole allows, never widen it. */
export function tightenLimit(settings: RetrySettings, limit: RetryLimit): RetrySettings {
  return attemptsAllowed(limit) < attemptsAllowed(settings.limit) ? { ...settings, limit } : settings
}

/** What travels with an attempt into events and rows. */
export type RetryContract = {
  readonly attempt: number
  readonly max_attempts: number
  /** When the next attempt may start; null: there is none. */
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

/** Counting from 0 where 1 is meant would grant one attempt too many; a fault, since only code passes it. */
function assertAttempt(attempt: number): void {
  if (Number.isSafeInteger(attempt) && attempt >= 1) return
  throw new KernelFault('retry.attempt.invalid', `attempts are counted from 1, not ${attempt}`, { attempt })
}
