/** Reads of `job_runs`, and what is added to an open run; starting and closing one is in `sql/write-run.ts`. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Reader, Tx } from './database.ts'
import { RUN_COLUMNS } from './sql/write-run.ts'
import { statement } from './statement.ts'
import type { StoredRun } from './stored-rows.ts'

const selectRun = statement<StoredRun, { run_id: string }>(
  'select_run',
  `select ${RUN_COLUMNS} from job_runs where run_id = $run_id`,
)
const selectRunOfJob = statement<StoredRun, { job_id: string }>(
  'select_run_of_job',
  `select ${RUN_COLUMNS} from job_runs where job_id = $job_id`,
)
const selectUndecided = statement<StoredRun>(
  'select_undecided',
  `select ${RUN_COLUMNS} from job_runs where status = 'FAILED' and retry_decided is null order by started_at, run_id`,
)
const setVerdict = statement<never, { run_id: string; verdict: string }>(
  'set_verdict',
  `update job_runs set retry_decided = $verdict where run_id = $run_id and status = 'FAILED' and retry_decided is null`,
)
const setLogPath = statement<never, { run_id: string; log_path: string }>(
  'set_log_path',
  `update job_runs set log_path = $log_path where run_id = $run_id and status is null and log_path is null`,
)
const setProcess = statement<never, { run_id: string; pid: number; started_at: string; boot_id: string | null }>(
  'set_process',
  `update job_runs set process_pid = $pid, process_started_at = $started_at, process_boot_id = $boot_id
    where run_id = $run_id and status is null and process_pid is null`,
)
const appendArtifacts = statement<never, { run_id: string; artifacts: string }>(
  'append_artifacts',
  `update job_runs set artifacts = (select json_group_array(value) from
      (select value from json_each(job_runs.artifacts) union all select value from json_each($artifacts)))
    where run_id = $run_id`,
)

export function findRun(reader: Reader, runId: string): StoredRun | undefined {
  return reader.one(selectRun, { run_id: runId })
}

export function requireRun(reader: Reader, runId: string): Decision<StoredRun> {
  const run = findRun(reader, runId)
  return run ? accept(run) : refuse('scheduler.run.not_found', `there is no run ${quote(runId)}`)
}

export function requireOpenRun(reader: Reader, runId: string): Decision<StoredRun> {
  const run = requireRun(reader, runId)
  if (!run.ok || run.value.status === null) return run
  return refuse('scheduler.run.finished', `the run has ended as ${run.value.status} and gets no second outcome`, {
    facts: { status: run.value.status },
  })
}

export function findRunOfJob(reader: Reader, jobId: string): StoredRun | undefined {
  return reader.one(selectRunOfJob, { job_id: jobId })
}

/** Failures whose retry nobody has decided on: only a broken or foreign write leaves one. */
export function listUndecided(reader: Reader): StoredRun[] {
  return reader.all(selectUndecided)
}

export function saveVerdict(tx: Tx, runId: string, verdict: string): boolean {
  return tx.run(setVerdict, { run_id: runId, verdict }) === 1
}

/** False when the run is closed or has a log already. */
export function saveLogPath(tx: Tx, runId: string, logPath: string): boolean {
  return tx.run(setLogPath, { run_id: runId, log_path: logPath }) === 1
}

export function saveProcess(
  tx: Tx,
  runId: string,
  process: { readonly pid: number; readonly startedAt: string; readonly bootId: string | null },
): boolean {
  const { pid, startedAt, bootId } = process
  return tx.run(setProcess, { run_id: runId, pid, started_at: startedAt, boot_id: bootId }) === 1
}

/** Also after the outcome: artifacts are only ever appended. */
export function saveArtifacts(tx: Tx, runId: string, paths: readonly string[]): void {
  tx.run(appendArtifacts, { run_id: runId, artifacts: JSON.stringify(paths) })
}
