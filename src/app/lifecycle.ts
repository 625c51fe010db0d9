/** Closes what was opened in reverse order, even when a later part fails to open, and repeats work until it is stopped. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Decision } from '#kernel/refusal'
import type { Log } from './log.ts'

export type Closers = {
  add(close: () => Promise<unknown>): void
  closeAll(): Promise<void>
}

export function openClosers(log: Log): Closers {
  const closers: (() => Promise<unknown>)[] = []
  return {
    add: (close) => void closers.push(close),
    async closeAll() {
      for (let close = closers.pop(); close; close = closers.pop()) {
        await close().catch((error: unknown) => log.error({ err: error }, 'could not close a part of the service'))
      }
    },
  }
}

/** Opens, and closes everything again if opening fails. */
export async function openOrClose<T>(closers: Closers, open: () => Promise<Decision<T>>): Promise<Decision<T>> {
  try {
    const opened = await open()
    if (!opened.ok) await closers.closeAll()
    return opened
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

/** Repeats `work` with a pause after each run until it returns `FINISHED`. The returned function stops it and waits for the current run. */
export function every(pauseMs: number, work: () => Promise<unknown>, log: Log): () => Promise<void> {
  const stop = new AbortController()
  const running = (async () => {
    while (!stop.signal.aborted) {
      const result = await work().catch((error: unknown) =>
        log.warn({ err: error }, 'a sweep failed and will be repeated'),
      )
      if (result === FINISHED) return
      await wait(pauseMs, undefined, { signal: stop.signal }).catch(() => {})
    }
  })()
  return () => {
    stop.abort()
    return running
  }
}

/** Returned by work that does not have to run again. */
export const FINISHED = Symbol('finished')
