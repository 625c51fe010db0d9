/** The columns of a job as every statement returns them. */
export const JOB_COLUMNS = `job_id, template_id, schedule_id, group_id, job_type, params, status, priority, position, retry_of,
  created_at, queued_at, started_at, finished_at, worker_id, group_order, reservation_id, hold, not_before, cancelled_at`

/** The order of the queue, and the only place where it is written down. */
export const QUEUE_ORDER = 'priority desc, position, created_at, job_id'
