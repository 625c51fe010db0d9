/** The log of a run, up to a limit beyond which output is discarded. Imports nothing heavy: every command has a process that loads it. */
import { appendFileSync, closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'

export type RunLog = {
  readonly path: string
  write(chunk: Uint8Array): void
  /** Returns the last line of output, the best short explanation of a failure. */
  lastLine(): string
  close(): void
}

const TAIL_BYTES = 2_048

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
  return {
    path,
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
        put(noteOf(`The log is cut at ${maxBytes} bytes. The job continues.`))
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

const noteOf = (text: string) => Buffer.from(`[scheduler] ${text}\n`)

/** Adds a line of the scheduler, even when the log is full. */
export function noteInLog(path: string, text: string): void {
  try {
    appendFileSync(path, noteOf(text), { mode: 0o600 })
  } catch {
    // A full disk must not fail the job.
  }
}
