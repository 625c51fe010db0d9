/**
 * Tells other processes that a queue has turns to give. A notifying commit takes a lock of the whole cluster, so what comes
 * together is told together, over a statement of its own and never in the commit of a fact.
 */
import type { Db } from '#store'

export const CHANNEL = 'concord_turns'
const TOGETHER_MS = 2

export type Announcer = { announce(queue: string): void; close(): void }

export function openAnnouncer(db: Db, onError: (error: unknown) => void): Announcer {
  const waiting = new Set<string>()
  let timer: NodeJS.Timeout | undefined

  function send(): void {
    timer = undefined
    const queues = [...waiting]
    waiting.clear()
    // Not repeated when it fails: whoever did not hear it looks by himself.
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
