/** A new QUEUED job. Its position stands behind every queued job of its priority, held ones included: highest + 100. */
import { statement } from '../statement.ts'
import type { JobHold, StoredJob } from '../stored-rows.ts'
import { JOB_COLUMNS } from './job-columns.ts'

/** Room for 99 jobs between two neighbours before the queue has to be renumbered. */
export const GAP_SIZE = 100

export type NewJobRow = {
  readonly job_id: string
  readonly template_id: string | null
  readonly schedule_id: string | null
  readonly group_id: string | null
  readonly job_type: string
  readonly params: string
  readonly priority: number
  readonly now: number
  readonly group_order: number | null
  readonly reservation_id: string | null
  readonly hold: JobHold | null
  readonly not_before: number | null
}

/** Two looks, one per partial index; a single one would read every queued job. */
const NEXT_POSITION = (priority: string) => `
  coalesce((select max(highest) from (
    select max(position) as highest from jobs where status = 'QUEUED' and hold is null and priority = ${priority} union all
    select max(position) from jobs where status = 'QUEUED' and hold is not null and priority = ${priority})), 0) + ${GAP_SIZE}`

export const insertJob = statement<StoredJob, NewJobRow>(
  'insert_job',
  `insert into jobs (job_id, template_id, schedule_id, group_id, job_type, params, priority, position, created_at, queued_at,
                     group_order, reservation_id, hold, not_before)
   values ($job_id, $template_id, $schedule_id, $group_id, $job_type, $params, $priority, ${NEXT_POSITION('$priority')}, $now, $now,
           $group_order, $reservation_id, $hold, $not_before)
   returning ${JOB_COLUMNS}`,
)

export type NewRetryRow = {
  readonly job_id: string
  readonly failed_job_id: string
  readonly now: number
  readonly hold: 'delay' | null
  readonly not_before: number | null
}

/** A copy of the failed job at the end of its priority; no row when the job has its retry already. */
export const insertRetryJob = statement<StoredJob, NewRetryRow>(
  'insert_retry_job',
  `insert into jobs (job_id, template_id, schedule_id, group_id, job_type, params, priority, position, retry_of, created_at, queued_at,
                     group_order, hold, not_before)
   select $job_id, template_id, schedule_id, group_id, job_type, params, priority, ${NEXT_POSITION('failed.priority')}, job_id, $now, $now,
          group_order, $hold, $not_before
     from jobs failed where job_id = $failed_job_id
       on conflict (retry_of) where retry_of is not null do nothing
   returning ${JOB_COLUMNS}`,
)
