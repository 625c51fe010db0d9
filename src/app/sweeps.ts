/** Work that comes back after a pause, until it is told to stop. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from './log.ts'

/** Repeats `work` with a pause after each end, until it says that it is finished; gives back the way to stop it and wait for the one under way. */
export function every(pauseMs: number, work: () => Promise<unknown>, log: Log): () => Promise<void> {
  const stop = new AbortController()
  const running = (async () => {
    while (!stop.signal.aborted) {
      const said = await work().catch((error: unknown) =>
        log.warn({ err: error }, 'a sweep failed and will be tried again'),
      )
      if (said === FINISHED) return
      await wait(pauseMs, undefined, { signal: stop.signal }).catch(() => {})
    }
  })()
  return () => {
    stop.abort()
    return running
  }
}

/** What a work says that need not come back. */
export const FINISHED = Symbol('finished')
