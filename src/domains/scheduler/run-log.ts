/** Writes the output of a run to its log file, up to a limit beyond which output is discarded, and reads or follows logs. */
import { closeSync, existsSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { IN_MEMORY } from './database.ts'
import { type JobReport, readJob } from './job-views.ts'
import type { Wait } from './run-child.ts'
import type { Scheduler } from './scheduler.ts'

export type RunLog = {
  readonly path: string
  write(chunk: Uint8Array): void
  /** Writes a line of the scheduler, also when the log is full. */
  note(text: string): void
  /** Returns the last line of output, the best short explanation of a failure. */
  lastLine(): string
  close(): void
}

const TAIL_BYTES = 2_048

/** Returns the default folder of logs, beside the file; undefined for a scheduler in memory. */
export function runFolderOf(file: string): string | undefined {
  return file === IN_MEMORY ? undefined : `${file}.runs`
}

export function runLogPath(folder: string, runId: string): string {
  return join(folder, `${runId}.log`)
}

/** Readable by the owner only, because jobs may print secrets. */
export function openRunLog(path: string, maxBytes: number): RunLog {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const fd = openSync(path, 'a', 0o600)
  let leftBytes = maxBytes
  let isOpen = true
  let tail: Uint8Array = new Uint8Array()
  const put = (bytes: Uint8Array) => {
    try {
      for (let at = 0; at < bytes.byteLength; ) at += writeSync(fd, bytes, at)
    } catch {
      // A full disk must not fail the job.
      leftBytes = 0
    }
  }
  const note = (text: string) => put(Buffer.from(`[scheduler] ${text}\n`))
  return {
    path,
    note: (text) => (isOpen ? note(text) : undefined),
    write(chunk) {
      if (!isOpen) return
      tail = Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES)
      if (leftBytes === 0) return
      const fitting = chunk.subarray(0, leftBytes)
      leftBytes -= fitting.byteLength
      put(fitting)
      if (fitting.byteLength < chunk.byteLength) {
        leftBytes = 0
        put(Buffer.from('\n'))
        note(`the log is cut at ${maxBytes} bytes; the job continues`)
      }
    },
    lastLine() {
      const lines = new TextDecoder().decode(tail).split('\n')
      return lines.findLast((line) => line.trim() !== '')?.trim() ?? ''
    },
    close() {
      if (isOpen) closeSync(fd)
      isOpen = false
    },
  }
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
    'The log is not there any more. Logs of ended runs are kept for a limited time.',
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
