/**
 * The files next to the scheduler file: the log of each run, the outcome of its command, and the requests to stop it. Old files of
 * ended runs are pruned by age and total size, and with them ended notifications. Rows of jobs and runs are never deleted (D12);
 * reading a pruned log is refused with the reason.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { open, opendir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { failureClasses } from '#kernel/error-classes'
import { isUuid } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { IN_MEMORY, query } from './database.ts'
import { requireJob } from './job-repository.ts'
import { type JobReport, readJob } from './job-views.ts'
import { runEndPath, type StoredEnd } from './run-outcome.ts'
import { findRun, findRunOfJob } from './run-repository.ts'
import { nowMs, type Scheduler, type Wait } from './scheduler.ts'
import type { StoredRun } from './stored-rows.ts'

/** Returns the default folder of logs, next to the file; undefined for a scheduler in memory. */
export function runFolderOf(file: string): string | undefined {
  return file === IN_MEMORY ? undefined : `${file}.runs`
}

export type ReadLog = {
  /** Reads until the job has ended, and waits for one that has not started. */
  readonly follow: boolean
  readonly wait: Wait
  readonly stop: AbortSignal
}

const LOOK_MS = 150
const CHUNK_BYTES = 65_536

/** Reads the output of a job as bytes. Refuses before the first byte; a log deleted while it is read just ends. */
export function readLog(
  scheduler: Scheduler,
  jobId: string,
  options: ReadLog,
): Decision<AsyncGenerator<Uint8Array, void, undefined>> {
  const report = readJob(scheduler, jobId)
  if (!report.ok) return report
  const { run } = report.value
  const isComing = options.follow && !isOver(report.value)
  if (run?.log_path == null) return isComing ? accept(chunks(scheduler, jobId, options)) : refuseNoLog(run !== null)
  if (existsSync(run.log_path)) return accept(chunks(scheduler, jobId, options))
  return refuse(
    'scheduler.log.not_found',
    'The log no longer exists. Logs of ended runs are kept for a limited time.',
    {
      hint: 'The job itself still shows how the run ended.',
    },
  )
}

function isOver({ job, run }: JobReport): boolean {
  return job.status === 'CANCELLED' || run?.status != null
}

async function* chunks(scheduler: Scheduler, jobId: string, { follow, wait, stop }: ReadLog) {
  for (let offset = 0; ; ) {
    // Reads the run before the file, so that all output written before the end is included.
    const report = readJob(scheduler, jobId)
    if (!report.ok) return
    const path = report.value.run?.log_path
    if (path != null) {
      for await (const bytes of readFrom(path, offset)) {
        offset += bytes.byteLength
        yield bytes
      }
    }
    if (isOver(report.value) || !follow || stop.aborted) return
    await wait(LOOK_MS, stop)
  }
}

async function* readFrom(path: string, start: number): AsyncGenerator<Uint8Array, void, undefined> {
  const file = await open(path).catch(() => undefined)
  if (!file) return
  try {
    for (let offset = start; ; ) {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(CHUNK_BYTES), 0, CHUNK_BYTES, offset)
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
      offset += bytesRead
    }
  } finally {
    await file.close()
  }
}

function refuseNoLog(hasRun: boolean): Decision<never> {
  return refuse('scheduler.log.not_found', hasRun ? 'The run has no log.' : 'The job has not started yet.', {
    hint: hasRun ? 'The job itself shows how it ended.' : 'Follow the log to wait for the start.',
  })
}

function requestPath(runFolder: string, runId: string): string {
  return join(runFolder, `${runId}.stop`)
}

/**
 * Asks the owner of the file to end a run. A request is an empty file next to the log, which the owner acts on, and deletes with the outcome.
 * Guests have no other way to end a process of the owner.
 */
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

export function isStopRequested(runFolder: string, runId: string): boolean {
  return existsSync(requestPath(runFolder, runId))
}

const artifacts = z.array(z.string()).readonly().exactOptional()
const exitCode = z.int().exactOptional()
const storedEnd = z.strictObject({
  isSignalled: z.boolean(),
  end: z.discriminatedUnion('outcome', [
    z.strictObject({ outcome: z.literal('completed'), exitCode, artifacts }),
    z.strictObject({
      outcome: z.literal('failed'),
      error: z.string(),
      errorClass: z.enum(failureClasses).exactOptional(),
      exitCode,
      artifacts,
    }),
    z.strictObject({ outcome: z.literal('skipped'), error: z.string().exactOptional() }),
  ]),
})

/** Returns undefined for a text that is not a whole outcome. */
export function parseRunEnd(text: string): StoredEnd | undefined {
  try {
    return storedEnd.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

/** The outcome that the process of the run stored; undefined when it stored none. */
export function readRunEnd(path: string): StoredEnd | undefined {
  try {
    return parseRunEnd(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}

/** Called when the outcome is in the database: both files have served their purpose. */
export function removeRunRequests(runFolder: string, runId: string): void {
  for (const path of [requestPath(runFolder, runId), runEndPath(runFolder, runId)]) rmSync(path, { force: true })
}

export type Pruned = { readonly logs: number; readonly logBytes: number; readonly notifications: number }

/** Reads only the oldest rows: pending notifications are among the newest. */
const LOOK_ROWS = 5_000
const deleteEnded = query<never, { before: number }>(`
   delete from notifications where seq in (
     select seq from (select seq, status, ended_at from notifications order by seq limit ${LOOK_ROWS})
      where status <> 'PENDING' and ended_at < $before)`)

export async function pruneRuns(
  scheduler: Scheduler,
  runFolder: string,
  signal?: AbortSignal,
): Promise<Decision<Pruned>> {
  const { keepMs, logBytesMax } = scheduler.settings
  const beforeMs = nowMs(scheduler) - keepMs
  let notifications = 0
  for (let gone = LOOK_ROWS; gone > 0 && !signal?.aborted; ) {
    const deleted = scheduler.db.write((tx) => accept(tx.run(deleteEnded, { before: beforeMs })))
    if (!deleted.ok) return deleted
    gone = deleted.value
    notifications += gone
  }
  const ended = await listEnded(scheduler, runFolder, signal)
  if (!ended.ok) return ended
  let leftBytes = ended.value.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  let logs = 0
  let logBytes = 0
  for (const { path, endedAt, sizeBytes } of ended.value.toSorted((one, other) => one.endedAt - other.endedAt)) {
    if (signal?.aborted || (endedAt >= beforeMs && leftBytes <= logBytesMax)) break
    // A job may have made a folder instead of its list of artifacts.
    await rm(path, { force: true, recursive: true })
    leftBytes -= sizeBytes
    logBytes += sizeBytes
    logs += 1
  }
  return accept({ logs, logBytes, notifications })
}

const fileKinds = ['log', 'stop', 'artifacts', 'end']

type EndedFile = { readonly path: string; readonly endedAt: number; readonly sizeBytes: number }

/** Lists files of runs that have an outcome. Files without a known run are never deleted. */
async function listEnded(
  scheduler: Scheduler,
  runFolder: string,
  signal: AbortSignal | undefined,
): Promise<Decision<readonly EndedFile[]>> {
  const found: EndedFile[] = []
  const folder = await opendir(runFolder).catch(() => undefined)
  if (!folder) return accept(found)
  for await (const { name } of folder) {
    if (signal?.aborted) break
    const [runId = '', kind] = name.split('.')
    if (!isUuid(runId) || !fileKinds.includes(kind ?? '')) continue
    const run = scheduler.db.read((reader) => accept(findRun(reader, runId)))
    if (!run.ok) return run
    if (run.value?.status == null) continue
    const path = join(runFolder, name)
    const size = await stat(path).catch(() => undefined)
    const { finished_at, started_at } = run.value
    if (size) found.push({ path, endedAt: finished_at ?? started_at, sizeBytes: size.size })
  }
  return accept(found)
}
