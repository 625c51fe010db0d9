/**
 * One connection per process that listens and announces. A notice only means "check again": it may be lost with
 * its connection or be redundant, so every listener also polls.
 *
 * Announcements are coalesced and sent on their own connection, never in the commit of a hot write: a notifying
 * commit takes a lock that serializes all notifying commits of the cluster (writers fell to a third).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Db } from './db.ts'
import { columnName } from './statement.ts'

export type Notices = {
  /** Calls `wake` for every notice, and after a reconnect, when some may have been missed. Returns a function that stops it. */
  listen(channel: string, wake: (payload: string) => void): () => void
  /** Wakes the listeners of this process at once, the others too, but at most every `announceMs`; repeats in between count once. */
  announce(channel: string, payload?: string): void
  close(): Promise<void>
}

export type NoticesOptions = {
  readonly announceMs?: number
  readonly onError?: (error: unknown) => void
}

const RECONNECT_MS = [50, 100, 200, 500, 1_000, 2_000] as const
/** More distinct payloads than this in one announcement become one empty payload: "check everything". */
const PAYLOADS_MAX = 64

export function openNotices(db: Db, { announceMs = 50, onError = () => {} }: NoticesOptions = {}): Notices {
  const listeners = new Map<string, Set<(payload: string) => void>>()
  const outbound = new Map<string, Set<string>>()
  let client: pg.Client | undefined
  let connecting: Promise<void> | undefined
  let announcing: Promise<void> | undefined
  const closing = new AbortController()
  let isClosed = false

  function wake(channel: string, payload: string): void {
    for (const listener of listeners.get(channel) ?? []) listener(payload)
  }

  async function connect(): Promise<void> {
    for (let attempt = 0; !isClosed; attempt++) {
      try {
        client = await openListener()
        // Announcements during a lost connection are not repeated.
        for (const channel of listeners.keys()) wake(channel, '')
        return
      } catch (error) {
        onError(error)
        await sleep(RECONNECT_MS[Math.min(attempt, RECONNECT_MS.length - 1)])
      }
    }
  }

  async function openListener(): Promise<pg.Client> {
    const opened = await db.connect('concord-notices')
    opened.on('notification', ({ channel, payload = '', processId }) => {
      // Our own announcements have already woken this process.
      if (processId !== ownPid(opened)) wake(channel, payload)
    })
    opened.on('end', () => {
      if (client === opened) client = undefined
      reconnect()
    })
    try {
      // A channel that is added meanwhile is visited too: the iterator of a map is live.
      for (const channel of listeners.keys()) await opened.query(`listen ${channel}`)
    } catch (error) {
      await opened.end().catch(onError)
      throw error
    }
    return opened
  }

  function reconnect(): void {
    if (isClosed || client !== undefined || connecting !== undefined) return
    connecting = connect().finally(() => {
      connecting = undefined
    })
  }

  /** The first announcement is sent at once; what is announced during the pause after it goes into the next. */
  async function announceAll(): Promise<void> {
    while (outbound.size > 0 && !isClosed) {
      reconnect()
      await connecting
      if (client !== undefined) await announceOnce(client)
      await sleep(announceMs, undefined, { signal: closing.signal }).catch(() => {})
    }
    announcing = undefined
  }

  async function announceOnce(on: pg.Client): Promise<void> {
    const notices = [...outbound].flatMap(([channel, payloads]) =>
      (payloads.size > PAYLOADS_MAX ? [''] : [...payloads]).map((payload) => ({ channel, payload })),
    )
    outbound.clear()
    const lists = [notices.map(({ channel }) => channel), notices.map(({ payload }) => payload)]
    // A failure is not retried: a lost notice delays its listener until its next poll.
    await on
      .query('select pg_notify(channel, payload) from unnest($1::text[], $2::text[]) as n(channel, payload)', lists)
      .catch(onError)
  }

  return {
    listen(channel, listener) {
      columnName(channel)
      const known = listeners.get(channel)
      if (known === undefined) {
        listeners.set(channel, new Set([listener]))
        if (client === undefined) reconnect()
        else client.query(`listen ${channel}`).catch(onError)
      } else known.add(listener)
      return () => void listeners.get(channel)?.delete(listener)
    },
    announce(channel, payload = '') {
      columnName(channel)
      wake(channel, payload)
      const waiting = outbound.get(channel) ?? new Set()
      outbound.set(channel, waiting.add(payload))
      announcing ??= announceAll()
    },
    async close() {
      isClosed = true
      closing.abort()
      await Promise.all([connecting, announcing])
      await client?.end().catch(onError)
    },
  }
}

/** The driver has the process id of its backend, but its types omit it. */
function ownPid(client: pg.Client): number | undefined {
  return (client as unknown as { readonly processID?: number }).processID
}
