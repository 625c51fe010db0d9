/** What was opened, to be closed in reverse order: also when opening a later part failed. */
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

/** Opens, and closes everything again if it comes to nothing. */
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
