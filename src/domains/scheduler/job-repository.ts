/** Reads and small writes of `jobs`; the hot ones stand in `sql/`, each in its own file. */
import type { Reader, Tx } from './database.ts'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { JOB_COLUMNS } from './sql/job-columns.ts'
import { statement } from './statement.ts'
import type { StoredJob } from './stored-rows.ts'

const selectJob = statement<StoredJob, { job_id: string }>(
  'select_job',
  `select ${JOB_COLUMNS} from jobs where job_id = $job_id`,
)
const selectRetryOf = statement<{ retry_of: string | null }, { job_id: string }>(
  'select_retry_of',
  `select retry_of from jobs where job_id = $job_id`,
)
const selectRetry = statement<StoredJob, { job_id: string }>(
  'select_retry',
  `select ${JOB_COLUMNS} from jobs where retry_of = $job_id`,
)
const selectInFlight = statement<StoredJob>(
  'select_in_flight',
  `select ${JOB_COLUMNS} from jobs where status = 'RUNNING' and finished_at is null order by started_at, job_id`,
)
const cancelQueued = statement<StoredJob, { job_id: string; now: number }>(
  'cancel_queued',
  `update jobs set status = 'CANCELLED', cancelled_at = $now where job_id = $job_id and status = 'QUEUED' returning ${JOB_COLUMNS}`,
)
const startJob = statement<StoredJob, { job_id: string; now: number }>(
  'start_job',
  `update jobs set status = 'RUNNING', started_at = $now where job_id = $job_id and status = 'QUEUED' returning ${JOB_COLUMNS}`,
)
/** By way of the held jobs, so it is asked only while a reservation is active or ends. */
const selectWaitingDirect = statement<StoredJob, { reservation_id: string }>(
  'select_waiting_direct',
  `select ${JOB_COLUMNS} from jobs where status = 'QUEUED' and hold = 'direct' and reservation_id = $reservation_id
    order by created_at, job_id`,
)
const releaseDelayed = statement<never, { now: number }>(
  'release_delayed',
  `update jobs indexed by jobs_delayed_ix set hold = null where status = 'QUEUED' and hold = 'delay' and not_before <= $now`,
)

export function findJob(reader: Reader, jobId: string): StoredJob | undefined {
  return reader.one(selectJob, { job_id: jobId })
}

export function requireJob(reader: Reader, jobId: string): Decision<StoredJob> {
  const job = findJob(reader, jobId)
  return job ? accept(job) : refuse('scheduler.job.not_found', `there is no job ${quote(jobId)}`)
}

/** A job that may still change: dispatched and cancelled ones never do. */
export function requireQueued(reader: Reader, jobId: string): Decision<StoredJob> {
  const job = requireJob(reader, jobId)
  if (!job.ok || job.value.status === 'QUEUED') return job
  return refuse('scheduler.job.not_queued', `the job is ${job.value.status} and changes no more`, {
    ...(job.value.status === 'RUNNING' && { hint: 'A job in flight is stopped by ending its run.' }),
    facts: { status: job.value.status },
  })
}

/** For `walkRetryChain`: null for an original, undefined for a job that is not there. */
export function findRetryOf(reader: Reader, jobId: string): string | null | undefined {
  return reader.one(selectRetryOf, { job_id: jobId })?.retry_of
}

export function findRetry(reader: Reader, jobId: string): StoredJob | undefined {
  return reader.one(selectRetry, { job_id: jobId })
}

export function listInFlight(reader: Reader): StoredJob[] {
  return reader.all(selectInFlight)
}

/** Direct executions that were asked for and have not started, oldest first. */
export function listWaitingDirect(reader: Reader, reservationId: string): StoredJob[] {
  return reader.all(selectWaitingDirect, { reservation_id: reservationId })
}

/** Undefined when it was not QUEUED any more. */
export function saveCancelled(tx: Tx, jobId: string, now: number): StoredJob | undefined {
  return tx.one(cancelQueued, { job_id: jobId, now })
}

/** Starts one named job, past the order of the queue: a direct execution, or a group member that is skipped. */
export function saveStarted(tx: Tx, jobId: string, now: number): StoredJob | undefined {
  return tx.one(startJob, { job_id: jobId, now })
}

/** Jobs whose time has come take the place in the queue that their position gave them from the start. */
export function saveDelayOver(tx: Tx, now: number): number {
  return tx.run(releaseDelayed, { now })
}
