/** Follows a feed without end: woken by notices, backed by a slow poll, with one page in memory, across lost connections. */
import { setTimeout as sleep } from 'node:timers/promises'
import { KernelFault } from '#kernel/errors'
import type { Db } from './db.ts'
import { type FeedEvent, type FeedRequest, findFeedEnd, findFeedNow, isHeldBack, readFeed } from './feed.ts'
import type { Notices } from './notices.ts'
import { failpoint } from './failpoints.ts'

export type FollowOptions = FeedRequest & {
  /** Without notices only the poll finds new events. */
  readonly notices?: Notices
  readonly channel?: string
  /** The poll interval. */
  readonly pollMs?: number
  readonly signal?: AbortSignal
  /** Ends when everything that had happened at the call was delivered; waits for transactions that were running. */
  readonly untilNow?: boolean
  /** Receives the error of every failed read; following continues. */
  readonly onError?: (error: unknown) => void
}

/** A long transaction hides later commits, and no notice announces its end. */
const HELD_BACK_MS = 20
const AFTER_ERROR_MS = 250
const PAGE_ROWS = 200

/**
 * Yields events one by one, each with the cursor to resume after it. `after: undefined` starts with new
 * events. Ends when the signal is aborted; throws only for an invalid cursor, or one whose following events were archived.
 */
export async function* followFeed(db: Db, options: FollowOptions): AsyncGenerator<FeedEvent> {
  const { notices, channel, pollMs = 2_000, signal, untilNow = false, onError = () => {} } = options
  const { workspaceId, limit: limitMax = PAGE_ROWS, skipArchived = false } = options
  const bell = openBell(signal)
  const stop = notices && channel !== undefined ? notices.listen(channel, bell.ring) : undefined
  let after = options.after
  let limit = limitMax
  let soonMs = HELD_BACK_MS
  let now: bigint | undefined
  try {
    while (!signal?.aborted) {
      try {
        bell.reset()
        after ??= await findFeedEnd(db)
        if (untilNow) now ??= await findFeedNow(db)
        const page = await readFeed(db, { after, workspaceId, skipArchived, limit })
        if (!page.ok) throw new KernelFault(page.code, page.reason)
        await failpoint('feed.page_read')
        for (const event of page.value.events) {
          if (signal?.aborted) return
          yield event
        }
        after = page.value.cursor
        // The database measures every row that could be on a page, so after a page that ended at its size it is asked for fewer.
        const isCut = page.value.isFull && page.value.events.length < limit
        limit = Math.min(limitMax, 2 * (isCut ? page.value.events.length : limit))
        if (page.value.isFull) continue
        if (now !== undefined && BigInt(after.split('.')[0] ?? 0) >= now) return
        const isSoon = now !== undefined || (await isHeldBack(db, after, workspaceId))
        await bell.wait(isSoon ? soonMs : pollMs)
        // During a long transaction the polling interval grows up to that of the slow poll.
        soonMs = isSoon && page.value.events.length === 0 ? Math.min(soonMs * 2, pollMs) : HELD_BACK_MS
      } catch (error) {
        if (error instanceof KernelFault) throw error
        onError(error)
        await bell.wait(AFTER_ERROR_MS)
      }
    }
  } finally {
    stop?.()
    bell.close()
  }
}

/** Waits for a ring or a timeout; rings that arrive while nothing waits are kept as one. */
function openBell(signal: AbortSignal | undefined) {
  let rung = false
  let wake: (() => void) | undefined
  const ring = () => {
    rung = true
    wake?.()
  }
  signal?.addEventListener('abort', ring)
  return {
    ring,
    reset() {
      rung = false
    },
    async wait(ms: number) {
      if (rung || signal?.aborted) return
      const timer = new AbortController()
      await Promise.race([
        new Promise<void>((resolve) => {
          wake = resolve
        }),
        sleep(ms, undefined, { signal: timer.signal }).catch(() => {}),
      ])
      wake = undefined
      timer.abort()
    },
    close: () => signal?.removeEventListener('abort', ring),
  }
}
