/** Counts the running turns of each queue in this worker and decides whether one more may start without asking the queue. */
import { DEFAULT_PER_WORKER, type QueueSpec } from '#runtime'

export type Slots = {
  /** Returns how many more turns of the queue fit. */
  free(queue: string): number
  /** True when other workers count against the queue's limits too: only the book knows whether a turn fits. */
  isShared(queue: string): boolean
  /** Records that turns wait without a slot: the next turn that ends triggers a hand-over. */
  want(queue: string): void
  /** Reserves a slot for a turn that starts in this process; undefined when only the queue can decide. */
  reserveSlot(queue: string): (() => void) | undefined
  /** Reserves a slot for a turn on its way to this worker, until it arrives or `ms` have passed. */
  hold(queue: string, ms: number): () => void
  /** Waits for a slot up to the time limit; returns false without one. */
  admit(queue: string, ms: number): Promise<boolean>
  enter(queue: string): void
  /** Returns true when turns may be waiting for the slot. */
  leave(queue: string): boolean
  /** From now on no turn fits. */
  close(): void
}

/** An unused reservation, such as that of a transaction without an end hook, expires after this time. */
const RESERVED_MS = 15_000

export function openSlots(specOf: (queue: string) => QueueSpec | undefined): Slots {
  const taken = new Map<string, number>()
  const wanted = new Set<string>()
  const waiting = new Map<string, Set<() => void>>()
  let isClosed = false
  const countOf = (queue: string) => taken.get(queue) ?? 0
  const add = (queue: string, count: number) => void taken.set(queue, countOf(queue) + count)
  const free = (queue: string) => (isClosed ? 0 : (specOf(queue)?.perWorker ?? DEFAULT_PER_WORKER) - countOf(queue))

  function isShared(queue: string): boolean {
    const { concurrency, rate, partition } = specOf(queue) ?? {}
    return concurrency !== undefined || rate !== undefined || partition !== undefined
  }

  function giveBack(queue: string): void {
    add(queue, -1)
    const [next] = waiting.get(queue) ?? []
    next?.()
  }

  function hold(queue: string, ms: number): () => void {
    let isHeld = true
    add(queue, 1)
    const release = () => {
      clearTimeout(timer)
      if (isHeld) giveBack(queue)
      isHeld = false
    }
    const timer = setTimeout(release, ms)
    timer.unref()
    return release
  }

  return {
    free,
    isShared,
    want: (queue) => void wanted.add(queue),
    reserveSlot(queue) {
      // While turns wait in the queue, a new one must queue behind them.
      if (isShared(queue) || wanted.has(queue)) return undefined
      if (free(queue) <= 0) {
        wanted.add(queue)
        return undefined
      }
      return hold(queue, RESERVED_MS)
    },
    hold,
    async admit(queue, ms) {
      const deadline = performance.now() + ms
      for (;;) {
        if (free(queue) > 0) {
          add(queue, 1)
          return true
        }
        const left = deadline - performance.now()
        if (left <= 0 || isClosed) return false
        await new Promise<void>((resolve) => {
          const line = waiting.get(queue) ?? new Set()
          waiting.set(queue, line)
          const go = () => {
            clearTimeout(timer)
            line.delete(go)
            resolve()
          }
          const timer = setTimeout(go, left)
          line.add(go)
        })
      }
    },
    enter: (queue) => add(queue, 1),
    leave(queue) {
      giveBack(queue)
      return wanted.delete(queue) || isShared(queue)
    },
    close() {
      isClosed = true
      for (const line of waiting.values()) for (const go of line) go()
    },
  }
}
