/**
 * Two locks of a home that the kernel releases when their process dies: who starts or stops the server, and who uses it.
 * SQLite provides them: its file locks are those of the operating system on Linux, macOS and Windows, containers that share
 * the folder see them, and they need no process numbers and no clean-up. Nothing is written: both files stay empty.
 */
import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as wait } from 'node:timers/promises'

export type HeldLock = { release(): void }

const SQLITE_BUSY = 5
const POLL_MS = 25
/** Keeps the locks alive: the garbage collector would close and release them. */
const held = new Set<DatabaseSync>()

/**
 * Creates the file with mode 600, since everyone who may open it may hold the lock. An existing file is not opened here:
 * POSIX drops all locks of a process on a file when the process closes any handle of it. SQLite keeps its handles.
 */
function ensureFile(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

function hold(file: string, how: (lock: DatabaseSync) => void): HeldLock | undefined {
  ensureFile(file)
  const lock = new DatabaseSync(file)
  try {
    how(lock)
  } catch (error) {
    lock.close()
    if ((error as { errcode?: unknown }).errcode === SQLITE_BUSY) return undefined
    throw error
  }
  held.add(lock)
  return {
    release() {
      if (held.delete(lock)) lock.close()
    },
  }
}

/** Undefined while another process holds the file, shared or not. */
export function tryExclusive(file: string): HeldLock | undefined {
  return hold(file, (lock) => lock.exec('begin exclusive'))
}

/** Any number of holders; undefined only while another process holds the file exclusively. */
export function tryShared(file: string): HeldLock | undefined {
  return hold(file, (lock) => {
    lock.exec('begin')
    // A transaction takes its lock with its first read.
    lock.prepare('select count(*) from sqlite_schema').get()
  })
}

/** Waits for the exclusive lock without blocking the event loop; undefined after `timeoutMs`. */
export async function lockStart(file: string, timeoutMs: number): Promise<HeldLock | undefined> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const lock = tryExclusive(file)
    if (lock || waitedMs >= timeoutMs) return lock
    await wait(POLL_MS)
  }
}
