/** How many turns of each queue this worker has under way, and whether one more may start without asking the queue. */
import { DEFAULT_PER_WORKER, type QueueSpec } from '#runtime'

export type Slots = {
  /** How many more turns of the queue fit. */
  free(queue: string): number
  /** Other workers count against the queue's limits too: only the book knows whether there is room. */
  isShared(queue: string): boolean
  /** Turns are waiting that have no slot: the next one that ends asks for them. */
  want(queue: string): void
  /** A slot for a turn that starts where it was asked for; undefined when the queue has to decide. */
  reserveSlot(queue: string): (() => void) | undefined
  /** A slot for a turn that is on its way here, until it comes or `ms` are over. */
  hold(queue: string, ms: number): () => void
  /** Waits for a slot, at most so long; false without one. */
  admit(queue: string, ms: number): Promise<boolean>
  enter(queue: string): void
  /** True when turns may be waiting for the slot. */
  leave(queue: string): boolean
  /** From now on there is no room for more. */
  close(): void
}

/** A reservation that nothing came of, such as a transaction without a word of its end, lapses by itself. */
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
      // While turns wait in the queue, a new one goes behind them.
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
