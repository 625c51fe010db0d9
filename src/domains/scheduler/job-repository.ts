/** Reads and writes `jobs`. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { pageOf, type PagedRow, type SqlReader, query, type WriteTx } from './database.ts'
import type { StoredJob } from './stored-rows.ts'

export const JOB_COLUMNS = `job_id, template_id, schedule_id, group_id, job_type, params, status, priority, position, retry_of,
  created_at, queued_at, started_at, finished_at, worker_id, group_order, reservation_id, hold, not_before, cancelled_at, requested_by`

/** The order of the queue. */
export const QUEUE_ORDER = 'priority desc, position, created_at, job_id'

export type PagedJob = PagedRow<StoredJob>

export const pageOfJobs = (rows: string) => pageOf(rows, 'octet_length(params)')

const selectJob = query<StoredJob, { job_id: string }>(`select ${JOB_COLUMNS} from jobs where job_id = $job_id`)
const selectRetryOf = query<{ retry_of: string | null }, { job_id: string }>(
  `select retry_of from jobs where job_id = $job_id`,
)
const selectRetry = query<StoredJob, { job_id: string }>(`select ${JOB_COLUMNS} from jobs where retry_of = $job_id`)
const selectInFlight = query<StoredJob>(
  `select ${JOB_COLUMNS} from jobs where status = 'RUNNING' and finished_at is null order by started_at, job_id`,
)
const cancelQueued = query<StoredJob, { job_id: string; now: number }>(
  `update jobs set status = 'CANCELLED', cancelled_at = $now where job_id = $job_id and status = 'QUEUED' returning ${JOB_COLUMNS}`,
)
const startJob = query<StoredJob, { job_id: string; now: number }>(
  `update jobs set status = 'RUNNING', started_at = $now where job_id = $job_id and status = 'QUEUED' returning ${JOB_COLUMNS}`,
)
/** Scans the held jobs, so it runs only while a reservation is active or ends. */
const selectWaitingDirect = query<StoredJob, { reservation_id: string }>(`
   select ${JOB_COLUMNS} from jobs where status = 'QUEUED' and hold = 'direct' and reservation_id = $reservation_id
    order by created_at, job_id`)
const releaseDelayed = query<never, { now: number }>(
  `update jobs indexed by jobs_delayed_ix set hold = null where status = 'QUEUED' and hold = 'delay' and not_before <= $now`,
)

export function findJob(reader: SqlReader, jobId: string): StoredJob | undefined {
  return reader.one(selectJob, { job_id: jobId })
}

export function requireJob(reader: SqlReader, jobId: string): Decision<StoredJob> {
  const job = findJob(reader, jobId)
  return job ? accept(job) : refuse('scheduler.job.not_found', `There is no job ${quote(jobId)}.`)
}

/** Finds a job that may still change; dispatched and cancelled jobs never do. */
export function requireQueued(reader: SqlReader, jobId: string): Decision<StoredJob> {
  const job = requireJob(reader, jobId)
  if (!job.ok || job.value.status === 'QUEUED') return job
  return refuse('scheduler.job.not_queued', `The job is ${job.value.status} and can no longer change.`, {
    ...(job.value.status === 'RUNNING' && { hint: 'End its run to stop a job in flight.' }),
    facts: { status: job.value.status },
  })
}

/** For `walkRetryChain`: null for an original, undefined for a job that does not exist. */
export function findRetryOf(reader: SqlReader, jobId: string): string | null | undefined {
  return reader.one(selectRetryOf, { job_id: jobId })?.retry_of
}

export function findRetry(reader: SqlReader, jobId: string): StoredJob | undefined {
  return reader.one(selectRetry, { job_id: jobId })
}

export function listInFlight(reader: SqlReader): StoredJob[] {
  return reader.all(selectInFlight)
}

/** Requested direct executions that have not started, oldest first. */
export function listWaitingDirect(reader: SqlReader, reservationId: string): StoredJob[] {
  return reader.all(selectWaitingDirect, { reservation_id: reservationId })
}

/** Returns undefined when the job is no longer QUEUED. */
export function saveJobCancelled(tx: WriteTx, jobId: string, now: number): StoredJob | undefined {
  return tx.one(cancelQueued, { job_id: jobId, now })
}

/** Starts a given job outside the queue order: a direct execution, or a group member that is skipped. */
export function saveStarted(tx: WriteTx, jobId: string, now: number): StoredJob | undefined {
  return tx.one(startJob, { job_id: jobId, now })
}

/** Releases delayed jobs that are due, each at the position that it has had from the start. */
export function saveDelayOver(tx: WriteTx, now: number): number {
  return tx.run(releaseDelayed, { now })
}

/** Leaves room for 99 jobs between two neighbours before the priority must be renumbered. */
export const GAP_SIZE = 100

export type NewJobRow = Pick<
  StoredJob,
  | 'job_id'
  | 'template_id'
  | 'schedule_id'
  | 'group_id'
  | 'job_type'
  | 'params'
  | 'priority'
  | 'group_order'
  | 'reservation_id'
  | 'hold'
  | 'not_before'
  | 'requested_by'
> & { readonly now: number }

/** Two lookups, one per partial index; a single one would read every queued job. */
const NEXT_POSITION = (priority: string) => `
  coalesce((select max(highest) from (
    select max(position) as highest from jobs where status = 'QUEUED' and hold is null and priority = ${priority} union all
    select max(position) from jobs where status = 'QUEUED' and hold is not null and priority = ${priority})), 0) + ${GAP_SIZE}`

export const insertJob = query<StoredJob, NewJobRow>(`
   insert into jobs (job_id, template_id, schedule_id, group_id, job_type, params, priority, position, created_at, queued_at,
                     group_order, reservation_id, hold, not_before, requested_by)
   values ($job_id, $template_id, $schedule_id, $group_id, $job_type, $params, $priority, ${NEXT_POSITION('$priority')}, $now, $now,
           $group_order, $reservation_id, $hold, $not_before, $requested_by)
   returning ${JOB_COLUMNS}`)

type NewRetry = Pick<StoredJob, 'job_id' | 'hold' | 'not_before'> & { failed_job_id: string; now: number }

/** Inserts a copy of the failed job at the end of its priority; returns no row when the job already has a retry. */
export const insertRetryJob = query<StoredJob, NewRetry>(`
   insert into jobs (job_id, template_id, schedule_id, group_id, job_type, params, priority, position, retry_of, created_at, queued_at,
                     group_order, hold, not_before, requested_by)
   select $job_id, template_id, schedule_id, group_id, job_type, params, priority, ${NEXT_POSITION('failed.priority')}, job_id, $now, $now,
          group_order, $hold, $not_before, requested_by
     from jobs failed where job_id = $failed_job_id
       on conflict (retry_of) where retry_of is not null do nothing
   returning ${JOB_COLUMNS}`)
