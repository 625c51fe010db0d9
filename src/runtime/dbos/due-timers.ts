/** Brings delayed turns into their queues at their time. The engine does it too, but looks only once a second. */
import type { Db } from '#store'
import { promoteTurns } from './statements.ts'

export type DueTimers = { plan(turn: string, waitMs: number): void; close(): void }

/** Further ahead the engine's second does not matter, and a process need not remember. */
const AHEAD_MAX_MS = 60_000
const TIMERS_MAX = 10_000

export function openDueTimers(db: Db, onDue: (queue: string) => void, onError: (error: unknown) => void): DueTimers {
  const timers = new Set<NodeJS.Timeout>()
  const due = new Set<string>()
  let isSending = false

  async function send(): Promise<void> {
    if (isSending) return
    isSending = true
    try {
      while (due.size > 0) {
        const turns = [...due]
        due.clear()
        const queues = new Set((await db.run(promoteTurns, [turns])).map(({ queue_name }) => queue_name))
        for (const queue of queues) onDue(queue)
      }
    } catch (error) {
      onError(error)
    } finally {
      isSending = false
    }
  }

  return {
    plan(turn, waitMs) {
      if (waitMs > AHEAD_MAX_MS || timers.size >= TIMERS_MAX) return
      const timer = setTimeout(() => {
        timers.delete(timer)
        due.add(turn)
        void send()
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
