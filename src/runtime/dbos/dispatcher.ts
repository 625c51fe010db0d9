/**
 * Decides when the engine's queues are polled: at once when a turn was put into one, when a place became free, or when
 * another process says so; and now and then, because a word may get lost. The engine by itself polls every queue all the
 * time, and a worker then finishes at most as many turns per poll as it has places.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '#store'
import { findWaitingQueues } from './statements.ts'
import { openWatch } from './watch.ts'

export type Dispatcher = {
  /** A turn may be waiting in the queue. */
  nudge(queue: string): void
  /** All queues that have turns waiting. */
  sweep(): void
  /** Stops polling; a poll under way may still bring turns. */
  close(): Promise<void>
}

export type DispatcherOptions = {
  readonly sweepMs: number
  readonly queues: () => readonly string[]
  /** True when another worker was claiming at the same moment. */
  readonly poll: (queue: string) => Promise<boolean>
  readonly onError: (error: unknown) => void
}

export function openDispatcher(db: Db, { sweepMs, queues, poll, onError }: DispatcherOptions): Dispatcher {
  const polling = new Map<string, Promise<void>>()
  const again = new Set<string>()
  let isClosed = false

  /** One poll of a queue at a time in this process: two would both count the same free places. */
  function nudge(queue: string): void {
    if (isClosed) return
    if (polling.has(queue)) {
      again.add(queue)
      return
    }
    again.delete(queue)
    polling.set(
      queue,
      pollOnce(queue).finally(() => {
        polling.delete(queue)
        if (again.has(queue)) nudge(queue)
      }),
    )
  }

  async function pollOnce(queue: string): Promise<void> {
    try {
      if (await poll(queue)) {
        again.add(queue)
        await sleep(10 + Math.random() * 40)
      }
    } catch (error) {
      onError(error)
    }
  }

  const sweeps = openWatch(
    sweepMs,
    async () => {
      for (const { queue } of await db.run(findWaitingQueues, [queues()])) nudge(queue)
    },
    onError,
  )

  return {
    nudge,
    sweep: () => sweeps.soon(),
    async close() {
      isClosed = true
      await sweeps.close()
      await Promise.all(polling.values())
    },
  }
}
