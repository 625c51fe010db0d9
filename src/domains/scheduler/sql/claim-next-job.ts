/**
 * QUEUED → RUNNING for the first job of the queue, in one statement. The order comes out of `jobs_queue_ix`, so its cost
 * does not grow with the queue: p50 at 1,000,000 queued jobs against 1,000 is measured in bench/scheduler.ts.
 */
import { statement } from '../statement.ts'
import type { StoredJob } from '../stored-rows.ts'
import { JOB_COLUMNS, QUEUE_ORDER } from './job-columns.ts'

export const claimNextJob = statement<StoredJob, { now: number }>(
  'claim_next_job',
  `update jobs set status = 'RUNNING', started_at = $now
    where rowid = (select rowid from jobs where status = 'QUEUED' and hold is null order by ${QUEUE_ORDER} limit 1)
      and status = 'QUEUED'
   returning ${JOB_COLUMNS}`,
)

/**
 * The same while some job types are at their limit: the first job of each type that is not, and of these the first. With
 * `jobs_type_queue_ix` (there while any type has a limit) each type costs one look, whatever stands before its first job.
 */
export const claimNextAllowedJob = statement<StoredJob, { now: number; saturated: string }>(
  'claim_next_allowed_job',
  `update jobs set status = 'RUNNING', started_at = $now
    where rowid = (
      select head.rowid
        from job_types allowed
        join jobs head on head.rowid = (
          select rowid from jobs
           where status = 'QUEUED' and hold is null and job_type = allowed.job_type order by ${QUEUE_ORDER} limit 1)
       where allowed.job_type not in (select value from json_each($saturated))
       order by head.priority desc, head.position, head.created_at, head.job_id limit 1)
      and status = 'QUEUED'
   returning ${JOB_COLUMNS}`,
)

/** Types with a limit that is reached; asked only when more than one worker may run. */
export const listSaturatedTypes = statement<{ job_type: string }>(
  'list_saturated_types',
  `select job_type from job_types
    where concurrency_limit is not null
      and concurrency_limit <= (select count(*) from jobs
            where status = 'RUNNING' and finished_at is null and hold is not 'direct' and jobs.job_type = job_types.job_type)`,
)
