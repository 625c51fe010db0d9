/** A queue that releases entries with the same key one after the other: the next only when the previous one has left. */
export type Keyed = { readonly key: string | undefined }

export type KeyedQueue<Entry extends Keyed> = {
  push(entry: Entry): void
  /** The next entries, each key at most once. */
  take(max: number): Entry[]
  /** Puts entries back to the front that were taken and not begun. */
  putBack(entries: readonly Entry[]): void
  /** Marks the entry as done; the next one of its key becomes available. */
  leave(entry: Entry): void
  /** Entries that may be taken now. */
  readonly ready: number
  /** All entries that have not left: ready, waiting behind a key, and taken. */
  readonly size: number
}

export function keyedQueue<Entry extends Keyed>(): KeyedQueue<Entry> {
  const ready: Entry[] = []
  /** Keys that are ready or taken, each with what waits behind it. */
  const behind = new Map<string, Entry[]>()
  let size = 0
  return {
    push(entry) {
      size += 1
      const waiting = entry.key === undefined ? undefined : behind.get(entry.key)
      if (waiting !== undefined) {
        waiting.push(entry)
        return
      }
      if (entry.key !== undefined) behind.set(entry.key, [])
      ready.push(entry)
    },
    take: (max) => ready.splice(0, max),
    putBack: (entries) => void ready.unshift(...entries),
    leave({ key }) {
      size -= 1
      if (key === undefined) return
      const next = behind.get(key)?.shift()
      if (next === undefined) behind.delete(key)
      else ready.push(next)
    },
    get ready() {
      return ready.length
    },
    get size() {
      return size
    },
  }
}
