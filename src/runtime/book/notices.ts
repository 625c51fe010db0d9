/** Who hears that a queue has due turns, and when: other processes at once, this one when the time of a delayed turn has come. */
import type { Db } from '#store'

export const CHANNEL = 'concord_turns'
const TOGETHER_MS = 2

export type Announcer = { announce(queue: string): void; close(): void }

/**
 * A notifying commit takes a lock of the whole cluster, so what comes together is told together, over a statement of its own and
 * never in the commit of a fact.
 */
export function openAnnouncer(db: Db, onError: (error: unknown) => void): Announcer {
  const waiting = new Set<string>()
  let timer: NodeJS.Timeout | undefined

  function send(): void {
    timer = undefined
    const queues = [...waiting]
    waiting.clear()
    // Not repeated when it fails: every worker also looks by the clock.
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

export type DueTimers = { plan(queue: string, waitMs: number): void; close(): void }

/** Further ahead the look by the clock is soon enough, and a process need not remember. */
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
