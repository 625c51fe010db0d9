/**
 * Asks the owner of the file to end a run. A request is an empty file beside the log, which the owner acts on and deletes.
 * Guests have no other way to end a process of the owner.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { requireJob } from './job-repository.ts'
import { findRunOfJob } from './run-repository.ts'
import { runFolderOf } from './run-log.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoredRun } from './stored-rows.ts'

function requestPath(runFolder: string, runId: string): string {
  return join(runFolder, `${runId}.stop`)
}

export function requestStop(
  scheduler: Scheduler,
  jobId: string,
  runFolder = runFolderOf(scheduler.db.file),
): Decision<StoredRun> {
  const run = scheduler.db.read((reader): Decision<StoredRun> => {
    const job = requireJob(reader, jobId)
    if (!job.ok) return job
    const found = findRunOfJob(reader, jobId)
    if (found?.status === null) return accept(found)
    return refuse('scheduler.job.not_running', `The job ${quote(jobId)} is not running.`, {
      facts: { status: job.value.status, outcome: found?.status ?? null },
    })
  })
  if (!run.ok || runFolder === undefined) return run
  mkdirSync(runFolder, { recursive: true, mode: 0o700 })
  writeFileSync(requestPath(runFolder, run.value.run_id), '', { mode: 0o600 })
  return run
}

export function takeStopRequest(runFolder: string, runId: string): boolean {
  const path = requestPath(runFolder, runId)
  if (!existsSync(path)) return false
  rmSync(path, { force: true })
  return true
}
