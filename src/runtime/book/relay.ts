/**
 * Hands due turns to the engine: at once when a turn has become due, when a slot became free, or when another process says so;
 * and now and then, because a word may get lost. A worker hands over only what it has slots for, so that the order of a queue and
 * its limits stay the book's.
 */
import type { QueueSpec } from '#runtime'
import type { Db } from '#store'
import type { Carrier, GivenTurn } from './carrier.ts'
import type { Slots } from './slots.ts'
import { findDueQueues, regiveTurns, returnTurn, takeTurns } from './statements.ts'
import { openWatch } from './watch.ts'

export type Relay = {
  /** A turn may be waiting in the queue. */
  nudge(queue: string): void
  /** All queues that have due turns. */
  sweep(): void
  /** Hands nothing over any more. */
  close(): Promise<void>
}

export type RelayOptions = {
  readonly carrier: Pick<Carrier, 'give'>
  readonly executorId: string
  /** What this worker drives. */
  readonly kinds: readonly string[]
  readonly sweepMs: number
  /** Whose turns this worker takes. */
  readonly queues: () => readonly string[]
  readonly takes: (queue: string) => boolean
  readonly specOf: (queue: string) => QueueSpec | undefined
  readonly slots: Slots
  /** The turn is on its way, and a slot is held for it. */
  readonly onGiven: (turn: GivenTurn, release: () => void) => void
  readonly onError: (error: unknown) => void
}

/** More in one batch would make the first of them wait for the last. */
const BATCH_MAX = 32
/** A turn that has not begun so long after it was handed over is handed over again; then twice as long, and so on. */
const REGIVE_MS = 2_000
const REGIVE_LONGEST_MS = 60_000
/** A slot is kept so long for a turn on its way here; the engine may have brought it to another worker. */
const HELD_MS = 250
const REFUSED_PAUSE_MS = 100
const REFUSED_PAUSE_LONGEST_MS = 5_000

export function openRelay(db: Db, options: RelayOptions): Relay {
  const { carrier, executorId, kinds, sweepMs, queues, takes, specOf, slots, onGiven, onError } = options
  const giving = new Map<string, Promise<void>>()
  const again = new Set<string>()
  let [isClosed, refusals, pausedUntil, regivenAt] = [false, 0, 0, 0]

  /** One hand-over of a queue at a time in this process: two would both count the same free slots. */
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

  /** The engine is not there: the turns wait in the book, and so does this relay. */
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
