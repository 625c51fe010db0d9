/** The retry settings of each part of Concord: every delay and limit of a retry is defined here. */
import { failureTypes, retryableErrorClasses } from './error-classes.ts'
import type { RetrySettings } from './retry.ts'
import { defineRetryPolicy, type RetryPolicy } from './retry-policy.ts'

const second = 1_000

/** Mission tasks: 10, 20, 40, 80, 160, then 300 s; three retries, so four attempts; no jitter. */
export const missionRetry = {
  limit: { retries: 3 },
  backoff: { delay: { kind: 'exponential', baseMs: 10 * second, factor: 2, capMs: 300 * second } },
  retryable: failureTypes,
} as const satisfies RetrySettings

/** Mission settings from a run's `config.retry`; omitted fields keep their default. */
export function missionRetryOf(config: {
  readonly max_retries?: number
  readonly base_seconds?: number
  readonly cap_seconds?: number
}): RetrySettings {
  const { delay } = missionRetry.backoff
  return {
    ...missionRetry,
    limit: { retries: config.max_retries ?? missionRetry.limit.retries },
    backoff: {
      delay: {
        ...delay,
        baseMs: config.base_seconds === undefined ? delay.baseMs : config.base_seconds * second,
        capMs: config.cap_seconds === undefined ? delay.capMs : config.cap_seconds * second,
      },
    },
  }
}

/** Scheduler jobs: immediate, three retries; each is a new job, see `retry-chain.ts`. */
export const schedulerRetry = {
  limit: { retries: 3 },
  backoff: { delay: { kind: 'none' } },
  retryable: ['work_failed', 'timeout', 'infrastructure'],
} as const satisfies RetrySettings

/** Dataflow tasks: three attempts. A job may override them; the jitter keeps failed tasks from returning all at once. */
export const flowRetry = {
  limit: { attempts: 3 },
  backoff: { delay: { kind: 'exponential', baseMs: 5 * second, factor: 2, capMs: 300 * second }, jitter: 0.2 },
  retryable: ['work_failed', ...retryableErrorClasses],
} as const satisfies RetrySettings

/** Outbox rows: 1, 2, 4 … up to 600 s, twenty attempts: enough for an outage of an hour and a half. */
export const outboxRetry = {
  limit: { attempts: 20 },
  backoff: { delay: { kind: 'exponential', baseMs: second, factor: 2, capMs: 600 * second }, jitter: 0.2 },
  retryable: ['work_failed', ...retryableErrorClasses],
} as const satisfies RetrySettings

/** The operation of every compensation step; without a key a compensation could happen twice. */
export const compensationPolicy: RetryPolicy = defineRetryPolicy({
  operation: 'compensation',
  retryable: retryableErrorClasses,
  requires_idempotency_key: true,
})
