/** What a runner writes down while a run is open: its log, its process, its artifacts; each once, or only appended. */
import { type Decision, refuse } from '#kernel/refusal'
import type { Tx } from './database.ts'
import { findRunOfJob, requireOpenRun, requireRun, saveArtifacts, saveLogPath, saveProcess } from './run-repository.ts'
import type { ProcessIdentity } from './runner-port.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoredJob, StoredRun } from './stored-rows.ts'

const PATH_CHARS_MAX = 4_096
const ARTIFACTS_MAX = 1_000

export function recordLogPath(scheduler: Scheduler, runId: string, logPath: string): Decision<StoredRun> {
  return scheduler.db.write((tx) => {
    if (!isPath(logPath)) return refusePath('log_path')
    const run = requireOpenRun(tx, runId)
    if (!run.ok) return run
    return saveLogPath(tx, runId, logPath) ? requireRun(tx, runId) : refuseTwice('log_path')
  })
}

/** As soon as the child is there: recovery ends it by this identity before anything is repeated. */
export function recordProcess(
  scheduler: Scheduler,
  runId: string,
  process: { readonly pid: number; readonly startedAt: string; readonly bootId: string | null },
): Decision<StoredRun> {
  return scheduler.db.write((tx) => {
    const run = requireOpenRun(tx, runId)
    if (!run.ok) return run
    return saveProcess(tx, runId, process) ? requireRun(tx, runId) : refuseTwice('process')
  })
}

/** Also after the outcome. */
export function addArtifacts(scheduler: Scheduler, runId: string, paths: readonly string[]): Decision<StoredRun> {
  return scheduler.db.write((tx) => {
    if (paths.length > ARTIFACTS_MAX || !paths.every(isPath)) return refusePath('artifacts')
    const run = requireRun(tx, runId)
    if (!run.ok) return run
    saveArtifacts(tx, runId, paths)
    return requireRun(tx, runId)
  })
}

/** Who is to be ended for a job in flight; a run that has its outcome has no process any more. */
export function identityOf(tx: Pick<Tx, 'one' | 'all'>, job: StoredJob): ProcessIdentity | undefined {
  const run = findRunOfJob(tx, job.job_id)
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
    `a path has 1 to ${PATH_CHARS_MAX} characters, and a list at most ${ARTIFACTS_MAX} of them`,
    { path },
  )
}

function refuseTwice(path: string): Decision<never> {
  return refuse('row.conflict', `\`${path}\` of this run is written already and never changes`, { path })
}
