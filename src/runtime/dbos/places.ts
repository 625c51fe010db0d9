/** How many turns of each queue this worker has under way, and whether it may start one more without asking the queue. */
import type { QueueSpec } from '#runtime'

export type Places = {
  /** How many more turns of the queue fit. */
  free(queue: string): number
  /** Others count against the queue's limits too: only the engine knows whether there is room. */
  isShared(queue: string): boolean
  /** Turns are waiting that have no place: the next one that ends asks for them. */
  want(queue: string): void
  /** A place for a turn that the waker wants to start itself; undefined when the queue has to decide. */
  reserve(queue: string): (() => void) | undefined
  /** A place for a turn that is about to start, until its body has one of its own. */
  hold(queue: string): () => void
  enter(queue: string): void
  /** True when somebody may be waiting for the place. */
  leave(queue: string): boolean
  /** From now on there is no room for more. */
  close(): void
}

/** A promise that nothing came of, such as a transaction that was rolled back, gives its place back by itself. */
const RESERVED_MS = 15_000

export function openPlaces(specOf: (queue: string) => QueueSpec | undefined, perWorkerDefault: number): Places {
  const taken = new Map<string, number>()
  const wanted = new Set<string>()
  let isClosed = false
  const countOf = (queue: string) => taken.get(queue) ?? 0
  const add = (queue: string, count: number) => void taken.set(queue, countOf(queue) + count)
  const free = (queue: string) => (isClosed ? 0 : (specOf(queue)?.perWorker ?? perWorkerDefault) - countOf(queue))

  function isShared(queue: string): boolean {
    const { concurrency, rate, partition } = specOf(queue) ?? {}
    return concurrency !== undefined || rate !== undefined || partition !== undefined
  }

  function hold(queue: string): () => void {
    let isHeld = true
    add(queue, 1)
    return () => {
      if (isHeld) add(queue, -1)
      isHeld = false
    }
  }

  return {
    free,
    isShared,
    want: (queue) => void wanted.add(queue),
    reserve(queue) {
      // While turns wait in the queue, a new one goes behind them.
      if (isShared(queue) || wanted.has(queue)) return undefined
      if (free(queue) <= 0) {
        wanted.add(queue)
        return undefined
      }
      const release = hold(queue)
      setTimeout(release, RESERVED_MS).unref()
      return release
    },
    hold,
    enter: (queue) => add(queue, 1),
    leave(queue) {
      add(queue, -1)
      return wanted.delete(queue) || isShared(queue)
    },
    close() {
      isClosed = true
    },
  }
}
