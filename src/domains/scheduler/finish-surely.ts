/** For a runner that must get its outcome written: tries again while the file is busy or the disk full, then calls for help. */
import { type Decision, type Refusal, accept } from '#kernel/refusal'
import { delayAfter } from '#kernel/retry-backoff'
import { type FinishedRun, finishRun, type RunEnd } from './finish-run.ts'
import { findJob, findRetry } from './job-repository.ts'
import { isPassing } from './refusals.ts'
import { findRun } from './run-repository.ts'
import type { Scheduler } from './scheduler.ts'
import type { Sleep } from './wait-for-reservation.ts'

/** Told to an operator: the work is done, but the file would not take it. Recovery will mark the run as failed. */
export type OutcomeAlert = {
  readonly runId: string
  readonly end: RunEnd
  readonly attempts: number
  readonly refusal: Refusal
}

export type Surely = {
  readonly sleep: Sleep
  readonly alert: (alert: OutcomeAlert) => void
  readonly attemptsMax?: number
}

/** 0.1, 0.2, 0.4 … up to 10 s: twelve tries take about a minute. */
const backoff = { delay: { kind: 'exponential', baseMs: 100, factor: 2, capMs: 10_000 } } as const
const ATTEMPTS_MAX = 12

export async function finishRunSurely(
  scheduler: Scheduler,
  runId: string,
  end: RunEnd,
  { sleep, alert, attemptsMax = ATTEMPTS_MAX }: Surely,
): Promise<Decision<FinishedRun>> {
  for (let attempt = 1; ; attempt += 1) {
    const finished = finishRun(scheduler, runId, end)
    if (finished.ok) return finished
    // A commit whose answer was lost may have been stored all the same.
    if (attempt > 1 && finished.code === 'scheduler.run.finished') return readFinished(scheduler, runId, finished)
    if (!isPassing(finished)) return finished
    if (attempt >= attemptsMax) {
      alert({ runId, end, attempts: attempt, refusal: finished })
      return finished
    }
    await sleep(delayAfter(backoff, attempt, scheduler.deps.random))
  }
}

function readFinished(scheduler: Scheduler, runId: string, refusal: Refusal): Decision<FinishedRun> {
  const read = scheduler.db.read((reader): Decision<FinishedRun> => {
    const run = findRun(reader, runId)
    const job = run && findJob(reader, run.job_id)
    return run && job ? accept({ run, job, retry: findRetry(reader, job.job_id) ?? null }) : refusal
  })
  return read.ok ? read.value : read
}
