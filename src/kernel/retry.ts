/** The only retry decision: after a failed attempt, how long to wait, or why to stop. */
import type { Random } from './clock.ts'
import { type FailureClass, isRetryable } from './error-classes.ts'
import { KernelFault } from './errors.ts'
import { accept, type Decision, refuse } from './refusal.ts'

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

/** The wait after a failed attempt, as data: it can be stored, compared and printed. */
export type Backoff = {
  readonly delay:
    | { readonly kind: 'none' }
    | { readonly kind: 'fixed'; readonly ms: number }
    /** The first follows attempt 1, the second attempt 2; the last one repeats. */
    | { readonly kind: 'list'; readonly ms: readonly number[] }
    | { readonly kind: 'exponential'; readonly baseMs: number; readonly factor: number; readonly capMs: number }
  /** The random share of the delay, 0 to 1: with 0.2 the wait is between 80 % and 100 % of it. Default: none. */
  readonly jitter?: number
}

/** Returns whole milliseconds; randomness only shortens a wait, so a cap stays a cap. */
export function delayAfter(backoff: Backoff, attempt: number, random: Random): number {
  const full = fullDelay(backoff.delay, attempt)
  const jitter = backoff.jitter ?? 0
  return Math.round(jitter === 0 ? full : full * (1 - jitter * random()))
}

/** The longest wait that another system can request, unless the settings themselves wait longer. */
export const ASKED_WAIT_MAX_MS = 3_600_000

/** Returns the wait that the other system requested, in whole milliseconds; an invalid time counts as none. */
export function boundedWait(backoff: Backoff, askedMs: number | undefined): number {
  if (askedMs === undefined || !(askedMs > 0)) return 0
  return Math.min(Math.ceil(askedMs), Math.max(ASKED_WAIT_MAX_MS, longestDelay(backoff.delay)))
}

function longestDelay(delay: Backoff['delay']): number {
  switch (delay.kind) {
    case 'none':
      return 0
    case 'fixed':
      return delay.ms
    case 'list':
      return Math.max(0, ...delay.ms)
    case 'exponential':
      return delay.capMs
  }
}

function fullDelay(delay: Backoff['delay'], attempt: number): number {
  switch (delay.kind) {
    case 'none':
      return 0
    case 'fixed':
      return delay.ms
    case 'list':
      return delay.ms[attempt - 1] ?? delay.ms.at(-1) ?? 0
    case 'exponential':
      // Attempt 2,000 overflows to infinity, and the cap limits it; zero times infinity would be NaN.
      return delay.baseMs === 0 ? 0 : Math.min(delay.baseMs * delay.factor ** (attempt - 1), delay.capMs)
  }
}

// Retries that have their own rows: each points to the job it repeats, and the number of hops to the root is the count.

/** The `retry_of` of a job: an id, or null for an original; undefined when the job does not exist. */
export type FindRetryOf = (jobId: string) => string | null | undefined

/** Returns the ids from the job to its original; a loop or a missing parent is an error, never an endless walk. */
export function walkRetryChain(jobId: string, findRetryOf: FindRetryOf): Decision<readonly string[]> {
  const chain = new Set([jobId])
  for (let at = jobId; ; ) {
    const parent = findRetryOf(at)
    if (parent === null) return accept([...chain])
    if (parent === undefined) {
      return refuse('retry.chain.missing_parent', 'A retry chain names a job that does not exist.', {
        facts: { missing: at },
      })
    }
    if (chain.has(parent)) {
      return refuse('retry.chain.cycle', 'A retry chain contains a cycle.', {
        facts: { cycle: [...chain, parent] },
      })
    }
    chain.add(parent)
    at = parent
  }
}

/** 0 for an original, 1 for its first retry. */
export function countHops(jobId: string, findRetryOf: FindRetryOf): Decision<number> {
  const chain = walkRetryChain(jobId, findRetryOf)
  return chain.ok ? accept(chain.value.length - 1) : chain
}

/** Hops are counted from 0, attempts from 1. */
export function attemptOfHops(hops: number): number {
  return hops + 1
}

/** True when the job failed, no retry of it exists, and no further retry is allowed. */
export function isPermanentFailure(
  job: { readonly isFailed: boolean; readonly hasRetry: boolean; readonly hops: number },
  limit: RetryLimit,
): boolean {
  return job.isFailed && !job.hasRetry && attemptOfHops(job.hops) >= attemptsAllowed(limit)
}
