/** What follows for a task when its attempt, which is a command, has ended. Pure. */
import { failureTypeOf, isErrorClass } from '#kernel/error-classes'
import { decideRetry, type RetrySettings, retriesRemaining, tightenLimit } from '#kernel/retry'
import { missionRetryOf } from '#kernel/retry-policy'
import type { MissionConfig } from './config.ts'
import type { EndedAttempt } from './mission-task.ts'

export type AttemptEnd =
  | { readonly kind: 'completed' }
  | { readonly kind: 'cancelled' }
  /** The same command runs again, and keeps what succeeded. */
  | { readonly kind: 'retry'; readonly delayMs: number; readonly retriesRemaining: number; readonly errorType: string }
  | { readonly kind: 'failed'; readonly errorType: string }

/** The lowest limit holds: that of the mission, of the task, or `runsMax`, the runs that the catalog allows for the command. */
export function attemptLimitOf(
  config: Pick<MissionConfig, 'retry'>,
  { max_retries }: { readonly max_retries?: number | undefined },
  runsMax: number,
): RetrySettings {
  const whole = tightenLimit(missionRetryOf(config.retry), { attempts: runsMax })
  return max_retries === undefined ? whole : tightenLimit(whole, { retries: max_retries })
}

/**
 * A failure of the infrastructure is tried again. A command that was denied, rejected or refused has failed for good: the same request gets the same
 * answer. So has one whose result was wrong, because nothing but a person can say whether its effects may be repeated.
 */
export function decideAttempt(
  { task, status, error_class }: Pick<EndedAttempt, 'task' | 'status' | 'error_class'>,
  config: Pick<MissionConfig, 'retry'>,
  runsMax: number,
): AttemptEnd {
  if (status === 'succeeded') return { kind: 'completed' }
  // A command that ends while its task is offered again has no attempt that could fail.
  if (status === 'cancelled' || status === 'compensated' || task.state === 'awaiting_retry')
    return { kind: 'cancelled' }
  const errorType = error_class ?? status
  const settings = attemptLimitOf(config, task.spec, runsMax)
  if (!isErrorClass(errorType) || failureTypeOf(errorType) !== 'infrastructure') return { kind: 'failed', errorType }
  const attempt = task.attempt_number
  const decided = decideRetry(settings, { attempt, errorClass: 'infrastructure', random: () => 0 })
  if (!decided.retry) return { kind: 'failed', errorType }
  return {
    kind: 'retry',
    delayMs: decided.delayMs,
    retriesRemaining: retriesRemaining(settings.limit, attempt),
    errorType,
  }
}
