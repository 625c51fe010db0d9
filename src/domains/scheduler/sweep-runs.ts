/** Prunes beside the loop of the owner: at the start, and then every hour. */
import { pruneRuns } from './prune-runs.ts'
import type { Wait } from './run-child.ts'
import type { RunEvent } from './run-scheduler.ts'
import type { Scheduler } from './scheduler.ts'

const PRUNE_EVERY_MS = 3_600_000
const FAREWELL_MS = 5_000

/** What it could not do now it does the next time. */
export function openSweep(scheduler: Scheduler, runFolder: string, onEvent: (event: RunEvent) => void) {
  const over = new AbortController()
  let sweeping: Promise<void> | undefined
  let nextAtMs = 0
  async function work(): Promise<void> {
    const pruned = await pruneRuns(scheduler, runFolder, over.signal)
    if (!pruned.ok) onEvent({ kind: 'waiting', refusal: pruned })
    else if (pruned.value.logs + pruned.value.notifications > 0) onEvent({ kind: 'pruned', pruned: pruned.value })
  }
  return {
    turn(): void {
      const now = scheduler.deps.now().getTime()
      if (now < nextAtMs || sweeping) return
      nextAtMs = now + PRUNE_EVERY_MS
      sweeping = work()
        // A folder that cannot be read costs the tidiness, never the loop.
        .catch(() => {})
        .finally(() => {
          sweeping = undefined
        })
    },
    /** A loop that ends at once may be the only one that ever runs, so what was begun gets a moment. */
    async close(wait: Wait): Promise<void> {
      if (!sweeping) return
      const done = new AbortController()
      const last = sweeping.finally(() => done.abort())
      await wait(FAREWELL_MS, done.signal)
      over.abort()
      await last
    },
  }
}
