/** The retry contract of one operation, and the only lookup from an operation's name to its settings. */
import { type FailureClass, failureTypes, isErrorClass, isRetryable, retryableErrorClasses } from './error-classes.ts'
import { didYouMean } from './nearest.ts'
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'
import type { RetrySettings } from './retry.ts'

export type RetryPolicy = {
  readonly operation: string
  /** A set: order and repetition have no meaning. */
  readonly retryable: readonly FailureClass[]
  /** Counts executions: 3 means the first one and two retries. */
  readonly max_attempts: number
  /** Delay i follows failed attempt i, so the third one is used only when `max_attempts` is 4 or more. */
  readonly backoff_seconds: readonly number[]
  readonly requires_idempotency_key: boolean
}

const MAX_ATTEMPTS = 3
const BACKOFF_SECONDS = [30, 120, 600] as const
/** A higher number would retry endlessly. */
const ATTEMPTS_LIMIT = 100

export function defineRetryPolicy(
  policy: Pick<RetryPolicy, 'operation' | 'retryable'> & Partial<RetryPolicy>,
): RetryPolicy {
  return Object.freeze({
    operation: policy.operation,
    retryable: Object.freeze([...new Set(policy.retryable)]),
    max_attempts: policy.max_attempts ?? MAX_ATTEMPTS,
    backoff_seconds: Object.freeze([...(policy.backoff_seconds ?? BACKOFF_SECONDS)]),
    requires_idempotency_key: policy.requires_idempotency_key ?? false,
  })
}

export type RetryRegistry = { readonly policies: ReadonlyMap<string, RetryPolicy> }

/** One policy per operation. */
export function registerRetryPolicies(policies: readonly RetryPolicy[]): Decision<RetryRegistry> {
  const byOperation = new Map<string, RetryPolicy>()
  for (const policy of policies) {
    if (byOperation.has(policy.operation)) {
      return refuse('retry.policy.duplicate', `The operation ${quote(policy.operation)} has two retry policies.`)
    }
    byOperation.set(policy.operation, policy)
  }
  return accept({ policies: byOperation })
}

export type CompiledRetry = RetrySettings & { readonly operation: string; readonly requiresIdempotencyKey: boolean }

export function compilePolicy(operation: string, registry: RetryRegistry): Decision<CompiledRetry> {
  const policy = registry.policies.get(operation)
  if (!policy) return refuseUnknown([operation], registry)
  return accept({
    operation,
    limit: { attempts: policy.max_attempts },
    backoff: { delay: { kind: 'list', ms: policy.backoff_seconds.map((seconds) => seconds * 1_000) } },
    retryable: policy.retryable,
    requiresIdempotencyKey: policy.requires_idempotency_key,
  })
}

/** For start-up: checks that every operation has a policy, and names all that have none at once. */
export function checkOperations(operations: readonly string[], registry: RetryRegistry): Decision<RetryRegistry> {
  const missing = operations.filter((operation) => !registry.policies.has(operation))
  return missing.length === 0 ? accept(registry) : refuseUnknown(missing, registry)
}

/** Refuses a step without a key when its operation requires one. */
export function decideStepKey(settings: CompiledRetry, idempotencyKey: string | null): Decision<string | null> {
  if (!settings.requiresIdempotencyKey || (idempotencyKey !== null && idempotencyKey !== ''))
    return accept(idempotencyKey)
  return refuse('retry.key.missing', `The operation ${quote(settings.operation)} needs an idempotency key.`)
}

const metadataFields = ['operation', 'retry_class', 'max_attempts', 'requires_idempotency_key']

/** Parses the declared form: `operation`, `retry_class` (one class or a list), `max_attempts`, `requires_idempotency_key`. */
export function parseRetryMetadata(input: unknown): Decision<RetryPolicy> {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    return refuse('retry.policy.invalid', 'A retry policy must be an object.', {
      hint: `Fields: ${metadataFields.join(', ')}.`,
    })
  }
  const unknown = Object.keys(input).find((key) => !metadataFields.includes(key))
  if (unknown !== undefined) {
    const more = { path: unknown.slice(0, 64), ...didYouMean(unknown, metadataFields) }
    return refuse('retry.policy.invalid', `A retry policy has no field ${quote(unknown)}.`, more)
  }
  const { operation, retry_class: named, max_attempts: attempts, requires_idempotency_key: key } = input as Metadata
  if (typeof operation !== 'string' || operation === '') return refuseField('operation', 'a name')
  const classes: readonly unknown[] = Array.isArray(named) ? named : [named]
  const retryable = classes.filter((name): name is FailureClass => typeof name === 'string' && isErrorClass(name))
  if (retryable.length < classes.length || retryable.length === 0 || !retryable.every(isRetryable)) {
    return refuseField('retry_class', `one of ${retryableErrorClasses.join(', ')}, or a list of them`)
  }
  const isCount =
    typeof attempts === 'number' && Number.isInteger(attempts) && attempts >= 1 && attempts <= ATTEMPTS_LIMIT
  if (attempts !== undefined && !isCount)
    return refuseField('max_attempts', `a whole number from 1 to ${ATTEMPTS_LIMIT}`)
  if (key !== undefined && typeof key !== 'boolean') return refuseField('requires_idempotency_key', 'true or false')
  return accept(
    defineRetryPolicy({
      operation,
      retryable,
      ...(isCount ? { max_attempts: attempts } : {}),
      ...(key === undefined ? {} : { requires_idempotency_key: key }),
    }),
  )
}

type Metadata = Readonly<Record<'operation' | 'retry_class' | 'max_attempts' | 'requires_idempotency_key', unknown>>

function refuseField(path: string, allowed: string): Refusal {
  return refuse('retry.policy.invalid', `The field ${path} must be ${allowed}.`, { path })
}

function refuseUnknown(operations: readonly string[], registry: RetryRegistry): Refusal {
  const [first = ''] = operations
  return refuse('retry.policy.unknown', `No retry policy is registered for ${operations.map(quote).join(', ')}.`, {
    ...didYouMean(first, registry.policies.keys()),
    facts: { operations },
  })
}

// The retry settings of each part of Concord: every delay and limit of a retry is defined here.

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

/** Scheduler jobs: immediate, three retries; each is a new job, see `walkRetryChain`. */
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
