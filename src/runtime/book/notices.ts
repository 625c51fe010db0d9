/** Announces due turns: to other processes at once, to this process when a delayed turn becomes due. */
import type { Db } from '#store'

export const CHANNEL = 'concord_turns'
const TOGETHER_MS = 2

type Announcer = { announce(queue: string): void; close(): void }

/**
 * Batches announcements into one statement of their own, never the commit of a fact: a notifying commit takes a lock of the
 * whole cluster.
 */
export function openAnnouncer(db: Db, onError: (error: unknown) => void): Announcer {
  const waiting = new Set<string>()
  let timer: NodeJS.Timeout | undefined

  function send(): void {
    timer = undefined
    const queues = [...waiting]
    waiting.clear()
    // A failure is not retried: every worker also polls.
    db.query('select pg_notify($1, queue) from unnest($2::text[]) as q (queue)', [CHANNEL, queues]).catch(onError)
  }

  return {
    announce(queue) {
      waiting.add(queue)
      timer ??= setTimeout(send, TOGETHER_MS)
    },
    close: () => clearTimeout(timer),
  }
}

type DueTimers = { plan(queue: string, waitMs: number): void; close(): void }

/** A turn further ahead is left to the poll, so that a process need not remember it. */
const AHEAD_MAX_MS = 60_000
const TIMERS_MAX = 10_000

export function openDueTimers(onDue: (queue: string) => void): DueTimers {
  const timers = new Set<NodeJS.Timeout>()
  return {
    plan(queue, waitMs) {
      if (waitMs > AHEAD_MAX_MS || timers.size >= TIMERS_MAX) return
      const timer = setTimeout(() => {
        timers.delete(timer)
        onDue(queue)
      }, Math.ceil(waitMs) + 1)
      timer.unref()
      timers.add(timer)
    },
    close() {
      for (const timer of timers) clearTimeout(timer)
      timers.clear()
    },
  }
}
