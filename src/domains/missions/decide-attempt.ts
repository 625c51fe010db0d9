/** What follows for a task when its attempt, which is a command, has ended. Pure. */
import { type FailureType, failureTypeOf, isErrorClass } from '#kernel/error-classes'
import { decideRetry, type RetrySettings, retriesRemaining, tightenLimit } from '#kernel/retry'
import { missionRetryOf } from '#kernel/retry-policy'
import type { MissionConfig } from './config.ts'
import type { StoredTask } from './mission.ts'

export type AttemptEnd =
  | { readonly kind: 'completed' }
  | { readonly kind: 'cancelled' }
  /** The same command runs again, and keeps what succeeded. */
  | ({ readonly kind: 'retry'; readonly delayMs: number; readonly retriesRemaining: number } & Failure)
  /** `standing`: effects that another attempt would repeat. */
  | ({ readonly kind: 'failed'; readonly standing?: readonly string[] } & Failure)

/** `failureType` is null if neither the work nor its environment failed: the attempt was refused. */
type Failure = { readonly errorType: string; readonly failureType: FailureType | null }
export type FailedEnd = Extract<AttemptEnd, { kind: 'retry' | 'failed' }>

type Limits = Pick<MissionConfig, 'retry' | 'timeouts'>

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
 * A failure of the infrastructure is tried again, unless the deadline of the task comes first. A command that was denied, rejected or refused has failed for
 * good: the same request gets the same answer. So has one whose result was wrong, because nothing but a person can say whether its effects may be repeated.
 */
export function decideAttempt(
  { task, status, error_class }: { task: StoredTask; status: string; error_class: string | null },
  config: Limits,
  runsMax: number,
  at: Date,
): AttemptEnd {
  if (status === 'succeeded') return { kind: 'completed' }
  // A command that ends while its task is offered again has no attempt that could fail.
  if (status === 'cancelled' || status === 'compensated' || task.state === 'awaiting_retry')
    return { kind: 'cancelled' }
  const errorType = error_class ?? status
  const failureType = (isErrorClass(errorType) && failureTypeOf(errorType)) || null
  const failed = { kind: 'failed', errorType, failureType } as const
  if (failureType !== 'infrastructure') return failed
  const settings = attemptLimitOf(config, task.spec, runsMax)
  const attempt = task.attempt_number
  const decided = decideRetry(settings, { attempt, errorClass: 'infrastructure', random: () => 0 })
  const deadline = deadlineOf(task, config)
  if (!decided.retry || (deadline !== null && at.getTime() + decided.delayMs >= deadline.getTime())) return failed
  return {
    ...failed,
    kind: 'retry',
    delayMs: decided.delayMs,
    retriesRemaining: retriesRemaining(settings.limit, attempt),
  }
}

/** An attempt is not repeated without a person if that would repeat effects that stand (`standing`), as it is for a refused output. */
export function keepStanding(end: AttemptEnd, standing: readonly string[] = []): AttemptEnd {
  if (end.kind !== 'retry' || standing.length === 0) return end
  return { kind: 'failed', errorType: end.errorType, failureType: end.failureType, standing }
}

/** The event and the fields of an attempt that failed. */
export function sayCrash(task: StoredTask, next: FailedEnd, message: string, at: Date) {
  const isAgain = next.kind === 'retry'
  const task_crashed = {
    error_type: next.errorType,
    error_message: message,
    duration_ms: task.started_at === null ? null : Math.max(0, at.getTime() - task.started_at.getTime()),
    final: !isAgain,
    retries_remaining: isAgain ? next.retriesRemaining : 0,
    attempt_number: task.attempt_number,
    agent_id: task.agent_id,
    failure_type: next.failureType,
  }
  const due_at = isAgain ? later(at, next.delayMs / 1_000) : null
  return { payloads: { task_crashed }, set: { error_message: message, failure_type: next.failureType, due_at } }
}

export const later = (at: Date, seconds: number) => new Date(at.getTime() + seconds * 1_000)

type Timed = Pick<StoredTask, 'started_at' | 'attempt_started_at'>

/** When a task must have its output, with all its attempts. Null: it has all the time. */
const deadlineOf = ({ started_at }: Pick<Timed, 'started_at'>, { timeouts }: Pick<Limits, 'timeouts'>) =>
  started_at === null || timeouts.task_deadline_seconds === undefined
    ? null
    : later(started_at, timeouts.task_deadline_seconds)

const attemptEndOf = ({ attempt_started_at }: Timed, { timeouts }: Pick<Limits, 'timeouts'>) =>
  attempt_started_at === null || timeouts.task_attempt_seconds === undefined
    ? null
    : later(attempt_started_at, timeouts.task_attempt_seconds)

/** The end of the lease of a worker that was heard of at `at`: the first of its three time limits. */
export function leaseOf(task: Timed, config: Pick<Limits, 'timeouts'>, at: Date): Date {
  const ends = [later(at, config.timeouts.task_stall_seconds), attemptEndOf(task, config), deadlineOf(task, config)]
  return new Date(Math.min(...ends.flatMap((end) => (end === null ? [] : [end.getTime()]))))
}

/** Which time limit has ended a lease. After the deadline there is no other attempt. */
export function findTimeLimit(task: Timed, config: Pick<Limits, 'timeouts'>, at: Date) {
  const isOver = (end: Date | null) => end !== null && end <= at
  if (isOver(deadlineOf(task, config))) return 'deadline'
  return isOver(attemptEndOf(task, config)) ? 'attempt' : 'stall'
}

/** How often an attempt may be claimed and not started, before that counts as a failure of the infrastructure. */
const RETURNS_MAX = 5

/** A claim that nobody started. */
export const decideUnstarted = ({ returns }: Pick<StoredTask, 'returns'>): 'offer' | 'crash' =>
  returns < RETURNS_MAX ? 'offer' : 'crash'
