/** Reads and writes `job_runs`: starts a run, extends it, closes it and stores its retry verdict. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { type SqlReader, query, type WriteTx } from './database.ts'
import type { ProcessIdentity } from './runner-settings.ts'
import type { Scheduler } from './scheduler.ts'
import { ARTIFACTS_MAX, PATH_CHARS_MAX } from './run-outcome.ts'
import type { StoredJob, StoredRun } from './stored-rows.ts'

const RUN_COLUMNS = `run_id, job_id, template_id, params_snapshot, status, started_at, finished_at, exit_code, error, artifacts,
  log_path, error_class, retry_decided, process_pid, process_started_at, process_boot_id`

const selectRun = query<StoredRun, { run_id: string }>(`select ${RUN_COLUMNS} from job_runs where run_id = $run_id`)
const selectRunOfJob = query<StoredRun, { job_id: string }>(
  `select ${RUN_COLUMNS} from job_runs where job_id = $job_id`,
)
const selectUndecided = query<StoredRun>(
  `select ${RUN_COLUMNS} from job_runs where status = 'FAILED' and retry_decided is null order by started_at, run_id`,
)
const setVerdict = query<never, { run_id: string; verdict: string }>(
  `update job_runs set retry_decided = $verdict where run_id = $run_id and status = 'FAILED' and retry_decided is null`,
)
const setLogPath = query<never, { run_id: string; log_path: string }>(
  `update job_runs set log_path = $log_path where run_id = $run_id and status is null and log_path is null`,
)
const setProcess = query<never, { run_id: string; pid: number; started_at: string; boot_id: string | null }>(`
   update job_runs set process_pid = $pid, process_started_at = $started_at, process_boot_id = $boot_id
    where run_id = $run_id and status is null and process_pid is null`)
const appendArtifacts = query<never, { run_id: string; artifacts: string }>(`
   update job_runs set artifacts = (select json_group_array(value) from
      (select value from json_each(job_runs.artifacts) union all select value from json_each($artifacts)))
    where run_id = $run_id`)

export function findRun(reader: SqlReader, runId: string): StoredRun | undefined {
  return reader.one(selectRun, { run_id: runId })
}

function requireRun(reader: SqlReader, runId: string): Decision<StoredRun> {
  const run = findRun(reader, runId)
  return run ? accept(run) : refuse('scheduler.run.not_found', `There is no run ${quote(runId)}.`)
}

export function requireOpenRun(reader: SqlReader, runId: string): Decision<StoredRun> {
  const run = requireRun(reader, runId)
  if (!run.ok || run.value.status === null) return run
  return refuse('scheduler.run.finished', `The run has already ended as ${run.value.status}.`, {
    facts: { status: run.value.status },
  })
}

export function findRunOfJob(reader: SqlReader, jobId: string): StoredRun | undefined {
  return reader.one(selectRunOfJob, { job_id: jobId })
}

/** Failures without a retry verdict; only an interrupted or foreign write leaves one. */
export function listUndecided(reader: SqlReader): StoredRun[] {
  return reader.all(selectUndecided)
}

export function saveVerdict(tx: WriteTx, runId: string, verdict: string): boolean {
  return tx.run(setVerdict, { run_id: runId, verdict }) === 1
}

export const insertRun = query<
  never,
  Pick<StoredJob, 'job_id' | 'template_id' | 'params'> & { run_id: string; now: number }
>(`
   insert into job_runs (run_id, job_id, template_id, params_snapshot, started_at)
   values ($run_id, $job_id, $template_id, $params, $now)`)

/** `artifacts` is a JSON list of the paths to append. */
type RunClosing = Pick<
  StoredRun,
  'run_id' | 'status' | 'exit_code' | 'error' | 'error_class' | 'retry_decided' | 'artifacts'
> & { readonly now: number }

/** Sets the outcome once; returns no row when the run is already closed. */
export const closeRun = query<StoredRun, RunClosing>(`
   update job_runs
      set status = $status, finished_at = $now, exit_code = $exit_code, error = $error, error_class = $error_class,
          retry_decided = $retry_decided,
          artifacts = case when $artifacts = '[]' then artifacts else
            (select json_group_array(value) from
              (select value from json_each(job_runs.artifacts) union all select value from json_each($artifacts))) end
    where run_id = $run_id and status is null
   returning ${RUN_COLUMNS}`)

export const finishJob = query<never, { job_id: string; now: number }>(
  `update jobs set finished_at = $now where job_id = $job_id and status = 'RUNNING' and finished_at is null`,
)

export function recordLogPath(scheduler: Scheduler, runId: string, logPath: string): Decision<StoredRun> {
  return scheduler.db.write((tx) => {
    if (!isPath(logPath)) return refusePath('log_path')
    const run = requireOpenRun(tx, runId)
    if (!run.ok) return run
    return tx.run(setLogPath, { run_id: runId, log_path: logPath }) === 1
      ? requireRun(tx, runId)
      : refuseTwice('log_path')
  })
}

/** Called right after the start: recovery ends the child by this identity before a retry. */
export function recordProcess(
  scheduler: Scheduler,
  runId: string,
  process: { readonly pid: number; readonly startedAt: string; readonly bootId: string | null },
): Decision<StoredRun> {
  return scheduler.db.write((tx) => {
    const run = requireOpenRun(tx, runId)
    if (!run.ok) return run
    const row = { run_id: runId, pid: process.pid, started_at: process.startedAt, boot_id: process.bootId }
    return tx.run(setProcess, row) === 1 ? requireRun(tx, runId) : refuseTwice('process')
  })
}

/** Allowed after the outcome too, because artifacts are only appended. */
export function addArtifacts(scheduler: Scheduler, runId: string, paths: readonly string[]): Decision<StoredRun> {
  return scheduler.db.write((tx) => {
    if (paths.length > ARTIFACTS_MAX || !paths.every(isPath)) return refusePath('artifacts')
    const run = requireRun(tx, runId)
    if (!run.ok) return run
    tx.run(appendArtifacts, { run_id: runId, artifacts: JSON.stringify(paths) })
    return requireRun(tx, runId)
  })
}

/** Returns the process to end for a job in flight; undefined for a run that already has an outcome. */
export function identityOf(reader: SqlReader, job: StoredJob): ProcessIdentity | undefined {
  const run = findRunOfJob(reader, job.job_id)
  if (run?.status !== null) return undefined
  return {
    runId: run.run_id,
    jobId: job.job_id,
    pid: run.process_pid,
    startedAt: run.process_started_at,
    bootId: run.process_boot_id,
  }
}

function isPath(text: string): boolean {
  return text.length > 0 && text.length <= PATH_CHARS_MAX && !text.includes('\0') && text.isWellFormed()
}

function refusePath(path: string): Decision<never> {
  return refuse(
    'api.field.value',
    `A path must have 1 to ${PATH_CHARS_MAX} characters, and a list at most ${ARTIFACTS_MAX} paths.`,
    { path },
  )
}

function refuseTwice(path: string): Decision<never> {
  return refuse('row.conflict', `\`${path}\` of this run is already set and never changes.`, { path })
}
