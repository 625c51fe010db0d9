/**
 * Values computed from the file, kept while the file does not change: a screen that redraws reads nothing twice. Derived only:
 * every write, of this process or of another one, makes it empty, and nothing but looks ever reads it.
 */
import { accept, type Decision } from '#kernel/refusal'
import type { Scheduler } from './scheduler.ts'

export type QueueCache = {
  /** The value of `read` at the current version of the file. */
  get<T>(key: string, read: (scheduler: Scheduler) => Decision<T>): Decision<T>
  /** Forgets everything; the next look reads again. */
  clear(): void
  readonly size: number
}

export function openQueueCache(scheduler: Scheduler): QueueCache {
  const values = new Map<string, unknown>()
  let version = scheduler.db.version()
  return {
    get<T>(key: string, read: (scheduler: Scheduler) => Decision<T>): Decision<T> {
      // Asked before the read: a write in between makes the value of the next look new, never this one old.
      const current = scheduler.db.version()
      if (current !== version) values.clear()
      version = current
      // Stored below under the same key, with the type that its reader has.
      if (values.has(key)) return accept(values.get(key) as T)
      const found = read(scheduler)
      if (found.ok) values.set(key, found.value)
      return found
    },
    clear: () => values.clear(),
    get size() {
      return values.size
    },
  }
}
