/**
 * Ends a run in one transaction: writes the outcome, `finished_at` of the job, the retry if one is due, the next step of the
 * group, and the notification. The retry verdict is stored with the outcome, so it is decided once.
 */
import type { FailureClass } from '#kernel/error-classes'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, type Refusal } from '#kernel/refusal'
import { isTransient } from './refusals.ts'
import { attemptOfHops, countHops, delayAfter } from '#kernel/retry'
import type { WriteTx } from './database.ts'
import { requireGroup, settleGroup } from './job-group.ts'
import { findJob, findRetry, findRetryOf, insertRetryJob } from './job-repository.ts'
import { decideRetryPlan, findRetryPolicy, type RetryPlan } from './job-types.ts'
import { notify } from './notifications.ts'
import { closeRun, findRun, finishJob, requireOpenRun } from './run-repository.ts'
import { nowMs, type Scheduler, type Wait } from './scheduler.ts'
import type { RunOutcome, StoredJob, StoredRun } from './stored-rows.ts'

export type RunEnd =
  | { readonly outcome: 'completed'; readonly exitCode?: number; readonly artifacts?: readonly string[] }
  | {
      readonly outcome: 'failed'
      readonly error: string
      readonly errorClass?: FailureClass
      readonly exitCode?: number
      readonly artifacts?: readonly string[]
    }
  /** A precondition failed before the work began. */
  | { readonly outcome: 'skipped'; readonly error?: string }
  /** Ended on request: FAILED with the error "cancelled", and no retry. */
  | { readonly outcome: 'stopped'; readonly exitCode?: number }

export type FinishedRun = { readonly run: StoredRun; readonly job: StoredJob; readonly retry: StoredJob | null }

const ERROR_CHARS_MAX = 8_192

export function finishRun(scheduler: Scheduler, runId: string, end: RunEnd): Decision<FinishedRun> {
  const finished = scheduler.db.write((tx): Decision<FinishedRun> => {
    const run = requireOpenRun(tx, runId)
    if (!run.ok) return run
    const job = findJob(tx, run.value.job_id)
    if (!job) throw new KernelFault('scheduler.broken', 'A run has no job.')
    return accept(closeJob(scheduler, tx, job, closingOf(runId, end, nowMs(scheduler))))
  })
  if (finished.ok) scheduler.pass('finish.committed')
  return finished
}

type RuledOut = 'stopped' | 'orphan_alive'
type Closing = {
  readonly runId: string
  readonly status: RunOutcome
  readonly exitCode: number | null
  readonly error: string | null
  readonly errorClass: FailureClass
  readonly artifacts: readonly string[]
  readonly ruledOut?: RuledOut | undefined
  readonly now: number
}

function closingOf(runId: string, end: RunEnd, now: number): Closing {
  const none = { runId, exitCode: null, error: null, errorClass: 'work_failed' as const, artifacts: [], now }
  const exitCode = 'exitCode' in end ? (end.exitCode ?? null) : null
  const artifacts = 'artifacts' in end ? (end.artifacts ?? []) : []
  switch (end.outcome) {
    case 'completed':
      return { ...none, status: 'COMPLETED', exitCode, artifacts }
    case 'failed':
      return {
        ...none,
        status: 'FAILED',
        exitCode,
        artifacts,
        error: cut(end.error),
        errorClass: end.errorClass ?? 'work_failed',
      }
    case 'skipped':
      return { ...none, status: 'SKIPPED', error: end.error === undefined ? null : cut(end.error) }
    case 'stopped':
      return { ...none, status: 'FAILED', exitCode, error: 'cancelled', ruledOut: 'stopped' }
  }
}

/** Closes an open run in recovery, with the outcome that was stored for it. */
export function closeEnded(
  scheduler: Scheduler,
  tx: WriteTx,
  job: StoredJob,
  { runId, end, ruledOut }: { readonly runId: string; readonly end: RunEnd; readonly ruledOut: RuledOut | undefined },
): FinishedRun {
  const closing = closingOf(runId, end, nowMs(scheduler))
  return closeJob(scheduler, tx, job, { ...closing, ruledOut: ruledOut ?? closing.ruledOut })
}

type FailedClosing = Pick<Closing, 'runId' | 'errorClass' | 'ruledOut' | 'now'> & { readonly error: string }

/** Closes a run that failed without a runner: in recovery, or because its row cannot be read. */
export function closeFailed(scheduler: Scheduler, tx: WriteTx, job: StoredJob, closing: FailedClosing): FinishedRun {
  return closeJob(scheduler, tx, job, { ...closing, status: 'FAILED', exitCode: null, artifacts: [] })
}

function closeJob(scheduler: Scheduler, tx: WriteTx, job: StoredJob, closing: Closing): FinishedRun {
  const { runId, status, exitCode, error, errorClass, artifacts, now } = closing
  const isFailed = status === 'FAILED'
  const plan = isFailed ? planRetry(scheduler, tx, job, closing) : undefined
  const run = tx.one(closeRun, {
    run_id: runId,
    status,
    now,
    exit_code: exitCode,
    error,
    error_class: isFailed ? errorClass : null,
    retry_decided: plan?.verdict ?? null,
    artifacts: JSON.stringify(artifacts),
  })
  if (!run) throw new KernelFault('scheduler.broken', 'A run that was open in this transaction is closed.')
  scheduler.pass('finish.outcome')
  tx.run(finishJob, { job_id: job.job_id, now })
  scheduler.pass('finish.finished_at')
  const retry = plan ? applyRetry(scheduler, tx, job, plan, now) : null
  notifyEnd(tx, job, run, retry, now)
  settleGroup(scheduler, tx, job, isFailed && !retry, now)
  scheduler.pass('finish.before_commit')
  return { run, job: { ...job, finished_at: now }, retry }
}

type JudgedRun = Pick<Closing, 'exitCode' | 'errorClass' | 'ruledOut'>

/** Decides whether to retry this failure, by the current rules of its job type. */
export function planRetry(
  scheduler: Scheduler,
  tx: WriteTx,
  job: StoredJob,
  { exitCode, errorClass, ruledOut }: JudgedRun,
): RetryPlan {
  return decideRetryPlan({
    policy: findRetryPolicy(tx, job.job_type),
    hops: countHops(job.job_id, (id) => findRetryOf(tx, id)),
    errorClass,
    exitCode,
    ruledOut:
      ruledOut ?? (job.reservation_id !== null ? 'direct' : isGroupHalted(tx, job) ? 'group_halted' : undefined),
    random: scheduler.deps.random,
  })
}

function isGroupHalted(tx: WriteTx, job: StoredJob): boolean {
  const group = job.group_id === null ? undefined : requireGroup(tx, job.group_id)
  return group?.ok === true && group.value.halted_at !== null
}

/** Inserts the retry job; returns null without one, or when the job already has a retry. */
export function applyRetry(
  scheduler: Scheduler,
  tx: WriteTx,
  job: StoredJob,
  plan: RetryPlan,
  now: number,
): StoredJob | null {
  if (plan.verdict !== 'retry') return null
  const isDelayed = plan.delayMs > 0
  const retry = tx.one(insertRetryJob, {
    job_id: scheduler.deps.newId(),
    failed_job_id: job.job_id,
    now,
    hold: isDelayed ? 'delay' : null,
    not_before: isDelayed ? now + plan.delayMs : null,
  })
  scheduler.pass('finish.retry_inserted')
  return retry ?? null
}

/** Notifies about the end: `run_failed` when a retry follows a failure, `job_failed` when none does. */
export function notifyEnd(tx: WriteTx, job: StoredJob, run: StoredRun, retry: StoredJob | null, now: number): void {
  const { job_id } = job
  const hops = countHops(job_id, (id) => findRetryOf(tx, id))
  const payload: JsonObject = {
    job_id,
    run_id: run.run_id,
    job_type: job.job_type,
    status: run.status,
    exit_code: run.exit_code,
    error: run.error,
    attempt: hops.ok ? attemptOfHops(hops.value) : null,
    retry_decided: run.retry_decided,
    retry_job_id: retry?.job_id ?? null,
    retry_not_before: retry?.not_before ?? null,
  }
  const kind =
    run.status === 'COMPLETED'
      ? 'run_completed'
      : run.status === 'SKIPPED'
        ? 'run_skipped'
        : retry
          ? 'run_failed'
          : 'job_failed'
  notify(tx, { kind, about: run.run_id, jobId: job_id, payload }, now)
}

/** Makes foreign text storable: limits its length, replaces NUL and lone surrogates. */
function cut(text: string): string {
  return text.slice(0, ERROR_CHARS_MAX).replaceAll('\0', '\uFFFD').toWellFormed()
}

/** Alerts the operator: the work has ended, but its outcome could not be written. Recovery reads the outcome of a command from its file. */
export type OutcomeAlert = {
  readonly runId: string
  readonly end: RunEnd
  readonly attempts: number
  readonly refusal: Refusal
}

export type Surely = {
  readonly wait: Wait
  readonly alert: (alert: OutcomeAlert) => void
  readonly attemptsMax?: number
}

/** 0.1, 0.2, 0.4 … up to 10 s: twelve attempts take about a minute. */
const backoff = { delay: { kind: 'exponential', baseMs: 100, factor: 2, capMs: 10_000 } } as const
const ATTEMPTS_MAX = 12

/** Retries `finishRun` while the file is unavailable, then raises the alert. */
export async function finishRunSurely(
  scheduler: Scheduler,
  runId: string,
  end: RunEnd,
  { wait, alert, attemptsMax = ATTEMPTS_MAX }: Surely,
): Promise<Decision<FinishedRun>> {
  for (let attempt = 1; ; attempt += 1) {
    const finished = finishRun(scheduler, runId, end)
    if (finished.ok) return finished
    // An earlier attempt may have committed although its answer was lost.
    if (attempt > 1 && finished.code === 'scheduler.run.finished') return readFinished(scheduler, runId, finished)
    if (!isTransient(finished)) return finished
    if (attempt >= attemptsMax) {
      alert({ runId, end, attempts: attempt, refusal: finished })
      return finished
    }
    await wait(delayAfter(backoff, attempt, scheduler.deps.random))
  }
}

function readFinished(scheduler: Scheduler, runId: string, refusal: Refusal): Decision<FinishedRun> {
  return scheduler.db.read((reader) => {
    const run = findRun(reader, runId)
    const job = run && findJob(reader, run.job_id)
    return run && job ? accept({ run, job, retry: findRetry(reader, job.job_id) ?? null }) : refusal
  })
}
