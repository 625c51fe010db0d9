/** Takes turns from a queue as far as this worker has places: many at once, begun in the same commit, started at once. */
import { randomUUID } from 'node:crypto'
import { turnName } from '#runtime'
import type { Db } from '#store'
import type { Internals } from './internals.ts'
import type { Places } from './places.ts'
import { claimTurns } from './statements.ts'
import type { Turns } from './turns.ts'

/** More in one commit would make the first of them wait for the last. */
const BATCH_MAX = 32

export type ClaimOptions = {
  readonly executorId: string
  readonly internals: Internals
  readonly places: Places
  readonly turns: Turns
  readonly attemptsMax: () => Readonly<Record<string, number>>
  readonly onError: (error: unknown) => void
}

export async function claimFrom(db: Db, queue: string, options: ClaimOptions): Promise<void> {
  const { executorId, internals, places, turns, attemptsMax, onError } = options
  for (;;) {
    const limit = Math.min(BATCH_MAX, places.free(queue))
    if (limit <= 0) return places.want(queue)
    const owner = randomUUID()
    const rows = await db.run(claimTurns, [queue, limit, executorId, owner, JSON.stringify(attemptsMax())])
    for (const { kind, id, turn, outcome, fence, attempt } of rows) {
      const name = turnName({ kind, id }, Number(turn))
      if (outcome !== null) turns.expect(name, outcome === 'begun' ? { fence: Number(fence), attempt } : undefined)
      // Taken before the next look at how many are free.
      const release = places.hold(queue)
      internals
        .start({ name, args: [kind, id, Number(turn), queue], owner })
        .catch((error: unknown) => {
          turns.forget(name)
          onError(error)
        })
        .finally(release)
    }
    if (rows.length < limit) return
  }
}
