/**
 * Hands due turns to the engine: when a turn becomes due, when a slot becomes free, when another process announces one, and
 * periodically, because a notice may get lost. A worker hands over only as many turns as it has slots for, so the book
 * keeps control of a queue's order and limits.
 */
import type { QueueSpec } from '#runtime'
import type { Db } from '#store'
import type { Carrier, GivenTurn } from './carrier.ts'
import { findDueQueues, regiveTurns, returnTurn, takeTurns } from './statements.ts'
import { openWatch } from './watch.ts'

export type Relay = {
  /** Checks the queue for due turns. */
  nudge(queue: string): void
  /** Checks all queues for due turns. */
  sweep(): void
  /** Stops handing over. */
  close(): Promise<void>
}

type RelayOptions = {
  readonly carrier: Pick<Carrier, 'give'>
  readonly executorId: string
  /** The kinds that this worker drives. */
  readonly kinds: readonly string[]
  readonly sweepMs: number
  /** The queues that this worker takes turns from. */
  readonly queues: () => readonly string[]
  readonly takes: (queue: string) => boolean
  readonly specOf: (queue: string) => QueueSpec | undefined
  /** The slots of this worker, by queue. */
  readonly slots: {
    free(queue: string): number
    want(queue: string): void
    hold(queue: string, ms: number): () => void
  }
  /** The turn is being delivered, and a slot is reserved for it. */
  readonly onGiven: (turn: GivenTurn, release: () => void) => void
  readonly onError: (error: unknown) => void
}

/** In a larger batch the first turn would wait for the last. */
const BATCH_MAX = 32
/** A turn that has not begun this long after its hand-over is handed over again; the pause doubles each time. */
const REGIVE_MS = 2_000
const REGIVE_LONGEST_MS = 60_000
/** How long a slot is reserved for a turn that is being delivered; the engine may have delivered it to another worker. */
const HELD_MS = 250
const REFUSED_PAUSE_MS = 100
const REFUSED_PAUSE_LONGEST_MS = 5_000

export function openRelay(db: Db, options: RelayOptions): Relay {
  const { carrier, executorId, kinds, sweepMs, queues, takes, specOf, slots, onGiven, onError } = options
  const giving = new Map<string, Promise<void>>()
  const again = new Set<string>()
  let [isClosed, refusals, pausedUntil, regivenAt] = [false, 0, 0, 0]

  /** Runs one hand-over per queue at a time in this process: two would count the same free slots. */
  function nudge(queue: string): void {
    if (isClosed || !takes(queue) || performance.now() < pausedUntil) return
    if (giving.has(queue)) {
      again.add(queue)
      return
    }
    again.delete(queue)
    giving.set(
      queue,
      giveAll(queue)
        .catch(onError)
        .finally(() => {
          giving.delete(queue)
          if (again.has(queue)) nudge(queue)
        }),
    )
  }

  async function giveAll(queue: string): Promise<void> {
    while (!isClosed) {
      const limit = Math.min(BATCH_MAX, slots.free(queue))
      if (limit <= 0) return slots.want(queue)
      const { concurrency, partition, rate } = specOf(queue) ?? {}
      const limits = [concurrency ?? null, partition?.concurrency ?? null, rate?.turns ?? null, rate?.perMs ?? null]
      const rows = await db.run(takeTurns, [queue, limit, executorId, kinds, ...limits])
      if (rows.length === 0) return
      const turns = rows.map(({ book, kind, id, turn, priority }): GivenTurn => {
        return { name: `${book}:${turn}`, book, kind, id, turn: Number(turn), queue, priority }
      })
      for (const turn of turns) onGiven(turn, slots.hold(queue, HELD_MS))
      const refused = await carrier.give(turns).catch((error: unknown) => {
        onError(error)
        return turns
      })
      if (refused.length > 0) return takeBack(refused)
      refusals = 0
      if (rows.length < limit) return
    }
  }

  /** The engine is unavailable: the turns wait in the book, and this relay pauses. */
  async function takeBack(turns: readonly GivenTurn[]): Promise<void> {
    const pauseMs = Math.min(REFUSED_PAUSE_LONGEST_MS, REFUSED_PAUSE_MS * 2 ** refusals)
    refusals += 1
    pausedUntil = performance.now() + pauseMs
    for (const { kind, id, turn } of turns) await db.run(returnTurn, [kind, id, turn, true, executorId])
  }

  const sweeps = openWatch(
    sweepMs,
    async () => {
      const now = performance.now()
      if (now - regivenAt >= REGIVE_MS / 2) {
        regivenAt = now
        for (const { queue } of await db.run(regiveTurns, [REGIVE_MS, REGIVE_LONGEST_MS])) nudge(queue)
      }
      for (const { queue } of await db.run(findDueQueues, [queues()])) nudge(queue)
    },
    onError,
  )

  return {
    nudge,
    sweep: () => sweeps.soon(),
    async close() {
      isClosed = true
      await sweeps.close()
      await Promise.all(giving.values())
    },
  }
}
