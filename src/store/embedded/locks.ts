/**
 * Two locks of a home that the kernel releases when their process dies, however it dies: whose turn it is to start or
 * stop the server, and who uses it. SQLite carries them because its file locks are the ones of the operating system on
 * Linux, macOS and Windows, are seen by containers that share the folder, and need neither process numbers nor clean-up
 * (a number may be reused, or belong to another container). Nothing is ever written: both files stay empty.
 */
import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as wait } from 'node:timers/promises'

export type HeldLock = { release(): void }

const SQLITE_BUSY = 5
const POLL_MS = 25
/** Referenced from here, since the garbage collector closing a lock nobody points to would release it. */
const held = new Set<DatabaseSync>()

/**
 * Closed to others from the start: who may open the file may hold the lock. An existing file is never opened here: POSIX gives
 * up all locks of a process on a file when the process closes any handle of it. SQLite knows that and keeps its handles.
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

/** Undefined when somebody else holds the file, shared or not. */
export function tryExclusive(file: string): HeldLock | undefined {
  return hold(file, (lock) => lock.exec('begin exclusive'))
}

/** Any number of holders; undefined only while somebody holds the file exclusively. */
export function tryShared(file: string): HeldLock | undefined {
  return hold(file, (lock) => {
    lock.exec('begin')
    // A transaction takes its lock with its first read.
    lock.prepare('select count(*) from sqlite_schema').get()
  })
}

/** Waits for a turn without blocking the event loop; undefined when `timeoutMs` passed. */
export async function takeTurn(file: string, timeoutMs: number): Promise<HeldLock | undefined> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const turn = tryExclusive(file)
    if (turn || waitedMs >= timeoutMs) return turn
    await wait(POLL_MS)
  }
}
