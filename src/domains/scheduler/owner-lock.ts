/**
 * One owner per scheduler file. The lock is one of the operating system on an empty file beside it, taken through SQLite,
 * whose file locks work alike on Linux, macOS and Windows: it ends with its process, however that ends, and needs no number
 * of a process, which may belong to somebody else by now.
 */
import { closeSync, existsSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { isBusy } from './sqlite-fault.ts'

export type OwnerLock = { release(): void }

/** Referenced from here, since the garbage collector closing a lock nobody points to would release it. */
const held = new Set<DatabaseSync>()

export function ownerLockPath(file: string): string {
  return `${file}.owner`
}

/** A guest that makes or migrates a file holds the lock for a moment. */
const WAIT_MS = 250

/** Whether some process owns the file now. Held for a moment only, which an owner that starts waits for. */
export function isOwned(file: string): boolean {
  if (!existsSync(ownerLockPath(file))) return false
  const lock = takeOwnerLock(file)
  lock?.release()
  return lock === undefined
}

/** Undefined while another connection holds it, of this process or of another one. */
export function takeOwnerLock(file: string): OwnerLock | undefined {
  const path = ownerLockPath(file)
  // Closed to others from the start. Never touched again that way: closing any descriptor of a file gives up all locks that
  // this process has on it, those of its other connections included.
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
  const lock = new DatabaseSync(path, { timeout: WAIT_MS })
  try {
    // In rollback mode an exclusive transaction shuts everybody out, and nothing is ever written.
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    if (isBusy(error)) return undefined
    throw error
  }
  held.add(lock)
  return {
    release() {
      if (held.delete(lock)) lock.close()
    },
  }
}
