/** Remembers when keys were last used, at most once a minute each and never in the way of a request. */
import type { Sql } from '#store'
import { touchKey } from './sql/touch-key.ts'

const EVERY_MS = 60_000

export type KeyUse = {
  /** Returns at once; the write happens behind it, and only when the last one is a minute old. */
  note(keyId: string, lastUsedAt: Date | null, now: Date): void
  /** Waits for the writes that are under way. */
  settle(): Promise<void>
}

export function openKeyUse(db: Sql, onError: (error: unknown) => void): KeyUse {
  const underWay = new Map<string, Promise<void>>()
  return {
    note(keyId, lastUsedAt, now) {
      const due = lastUsedAt === null || now.getTime() - lastUsedAt.getTime() >= EVERY_MS
      if (!due || underWay.has(keyId)) return
      const write = db
        .run(touchKey, [keyId, now])
        // A lost note costs nothing but accuracy; a database that is down is reported by the request itself.
        .then(() => {}, onError)
        .finally(() => underWay.delete(keyId))
      underWay.set(keyId, write)
    },
    async settle() {
      await Promise.all(underWay.values())
    },
  }
}
