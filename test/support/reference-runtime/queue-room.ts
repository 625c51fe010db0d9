/** Decides whether a queue has room for another turn: four limits over the running turns. */
import type { QueueSpec } from '#runtime'

type RunningTurn = { readonly queue: string; readonly worker: number; readonly partition: string | null }

export type QueueRoom = {
  isFree(turn: RunningTurn, running: Iterable<RunningTurn>, now: Date): boolean
  /** Counts the begin of a turn for the rate. */
  begin(queue: string, now: Date): void
  /** When the rate allows the next turn; null without a rate or with room. */
  freeAt(queue: string, now: Date): Date | null
}

export function openQueueRoom(specOf: (queue: string) => QueueSpec): QueueRoom {
  const begins = new Map<string, number[]>()

  function recent(queue: string, now: Date): number[] {
    const { rate } = specOf(queue)
    const since = rate === undefined ? Number.POSITIVE_INFINITY : now.getTime() - rate.perMs
    const kept = (begins.get(queue) ?? []).filter((at) => at > since)
    begins.set(queue, kept)
    return kept
  }

  return {
    isFree({ queue, worker, partition }, running, now) {
      const {
        concurrency = Number.POSITIVE_INFINITY,
        perWorker = Number.POSITIVE_INFINITY,
        rate,
        partition: parts,
      } = specOf(queue)
      const same = [...running].filter((turn) => turn.queue === queue)
      if (same.length >= concurrency) return false
      if (same.filter((turn) => turn.worker === worker).length >= perWorker) return false
      if (parts && same.filter((turn) => turn.partition === partition).length >= parts.concurrency) return false
      return rate === undefined || recent(queue, now).length < rate.turns
    },
    begin(queue, now) {
      if (specOf(queue).rate) recent(queue, now).push(now.getTime())
    },
    freeAt(queue, now) {
      const { rate } = specOf(queue)
      if (rate === undefined) return null
      const [oldest, ...more] = recent(queue, now)
      return oldest === undefined || more.length + 1 < rate.turns ? null : new Date(oldest + rate.perMs)
    },
  }
}
