/** The three writes of a run's life: it starts with its job, it gets its outcome once, and the job gets `finished_at`. */
import { statement } from '../statement.ts'
import type { RetryVerdict, RunOutcome, StoredRun } from '../stored-rows.ts'

export const RUN_COLUMNS = `run_id, job_id, template_id, params_snapshot, status, started_at, finished_at, exit_code, error, artifacts,
  log_path, error_class, retry_decided, process_pid, process_started_at, process_boot_id`

export type NewRunRow = {
  readonly run_id: string
  readonly job_id: string
  readonly template_id: string | null
  readonly params: string
  readonly now: number
}

export const insertRun = statement<never, NewRunRow>(
  'insert_run',
  `insert into job_runs (run_id, job_id, template_id, params_snapshot, started_at)
   values ($run_id, $job_id, $template_id, $params, $now)`,
)

export type RunClosing = {
  readonly run_id: string
  readonly status: RunOutcome
  readonly now: number
  readonly exit_code: number | null
  readonly error: string | null
  readonly error_class: string | null
  readonly retry_decided: RetryVerdict | null
  /** JSON list of the paths to append. */
  readonly artifacts: string
}

/** One outcome, once: no row when the run is closed already. */
export const closeRun = statement<StoredRun, RunClosing>(
  'close_run',
  `update job_runs
      set status = $status, finished_at = $now, exit_code = $exit_code, error = $error, error_class = $error_class,
          retry_decided = $retry_decided,
          artifacts = case when $artifacts = '[]' then artifacts else
            (select json_group_array(value) from
              (select value from json_each(job_runs.artifacts) union all select value from json_each($artifacts))) end
    where run_id = $run_id and status is null
   returning ${RUN_COLUMNS}`,
)

export const finishJob = statement<never, { job_id: string; now: number }>(
  'finish_job',
  `update jobs set finished_at = $now where job_id = $job_id and status = 'RUNNING' and finished_at is null`,
)
