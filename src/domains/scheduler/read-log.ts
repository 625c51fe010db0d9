/** The output of a job as bytes: what is there, or everything until the job has ended. */
import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type JobReport, readJob } from './list-jobs.ts'
import type { Wait } from './run-child.ts'
import type { Scheduler } from './scheduler.ts'

export type ReadLog = {
  /** Goes on until the job has ended, and waits for one that has not started. */
  readonly follow: boolean
  readonly wait: Wait
  readonly stop: AbortSignal
}

const LOOK_MS = 150
const CHUNK_BYTES = 65_536

/** Refuses before the first byte; a log that goes away while it is read just ends. */
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
  return refuse('scheduler.log.not_found', 'the log is not there any more; logs of ended runs are kept for a time', {
    hint: 'What the run came to is kept for ever: look at the job itself.',
  })
}

function isOver({ job, run }: JobReport): boolean {
  return job.status === 'CANCELLED' || run?.status != null
}

async function* chunks(scheduler: Scheduler, jobId: string, { follow, wait, stop }: ReadLog) {
  for (let offset = 0; ; ) {
    // The run first, the file second: what was written before the end is read after it.
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
  return refuse('scheduler.log.not_found', hasRun ? 'the run has left no log' : 'the job has not started yet', {
    hint: hasRun ? 'The job itself says how it ended.' : 'Follow it to wait for its start.',
  })
}
