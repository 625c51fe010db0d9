/** The output of one run in a file of its own, up to a limit; what goes beyond it is read and thrown away, so that the job goes on. */
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { IN_MEMORY } from './database.ts'

export type RunLog = {
  readonly path: string
  write(chunk: Uint8Array): void
  /** A line of ours, also when the log is full. */
  note(text: string): void
  /** What the output ended with: the best short explanation of a failure. */
  lastLine(): string
  close(): void
}

const TAIL_BYTES = 2_048

/** Beside the file, unless somebody names another place; undefined for a scheduler in memory. */
export function runFolderOf(file: string): string | undefined {
  return file === IN_MEMORY ? undefined : `${file}.runs`
}

export function runLogPath(folder: string, runId: string): string {
  return join(folder, `${runId}.log`)
}

/** Readable for its owner alone: jobs print what they should not. */
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
      // A full disk costs the log, never the job.
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
        note(`the log is cut at ${maxBytes} bytes; the job goes on`)
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
