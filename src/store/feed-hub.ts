/** One reader of the feed serves all followers of a workspace in this process, so an event is read and made into a message once. */
import { KernelFault } from '#kernel/errors'
import { PAGE_BYTES_MAX } from '#kernel/page-limit'
import type { Db } from './db.ts'
import { type FollowOptions, followFeed } from './feed-follow.ts'
import { type FeedEvent, findFeedEnd, isAfter, readFeed } from './feed.ts'

/** An event as the followers get it, with its size. */
type Message = { readonly cursor: string; readonly bytes: number }

type Followed = Pick<FollowOptions, 'workspaceId' | 'skipArchived'> & {
  readonly after: string
  readonly signal: AbortSignal
}

export type FeedHub<M> = { follow(followed: Followed): AsyncGenerator<M> }

type Room<M> = {
  readonly followers: Set<Follower<M>>
  readonly stop: AbortController
  /** Resolves when every later event will be delivered. */
  readonly started: Promise<void>
}

export function openFeedHub<M extends Message>(
  db: Db,
  options: Pick<FollowOptions, 'notices' | 'channel' | 'pollMs' | 'onError'>,
  make: (event: FeedEvent) => M,
): FeedHub<M> {
  const rooms = new Map<string, Room<M>>()

  function enter(workspaceId: string, follower: Follower<M>): Room<M> {
    const known = rooms.get(workspaceId)
    if (known) {
      known.followers.add(follower)
      return known
    }
    const stop = new AbortController()
    const followers = new Set([follower])
    const started = findFeedEnd(db).then((after) => {
      // Without a reader the followers end: each resumes after its last event, in a new room.
      deliver(workspaceId, after, followers, stop.signal).catch((error: unknown) => {
        if (rooms.get(workspaceId) === room) rooms.delete(workspaceId)
        for (const each of followers) each.fail(error)
      })
    })
    const room = { followers, stop, started }
    rooms.set(workspaceId, room)
    return room
  }

  async function deliver(workspaceId: string, after: string, followers: Set<Follower<M>>, signal: AbortSignal) {
    const events = followFeed(db, { ...options, workspaceId, after, skipArchived: true, signal })
    for await (const event of events) {
      const message = make(event)
      for (const follower of followers) follower.take(message)
    }
  }

  function leave(workspaceId: string, room: Room<M>, follower: Follower<M>): void {
    room.followers.delete(follower)
    if (room.followers.size > 0) return
    room.stop.abort()
    if (rooms.get(workspaceId) === room) rooms.delete(workspaceId)
  }

  return {
    async *follow({ workspaceId, after, skipArchived = false, signal }) {
      let at = after
      async function* readPast() {
        for (let isFull = true; isFull && !signal.aborted; ) {
          const page = await readFeed(db, { after: at, workspaceId, skipArchived })
          if (!page.ok) throw new KernelFault(page.code, page.reason)
          for (const event of page.value.events) yield make(event)
          at = page.value.cursor
          isFull = page.value.isFull
        }
      }
      // A follower reads the past alone, at its own pace.
      yield* readPast()
      const follower = openFollower<M>(signal)
      const room = enter(workspaceId, follower)
      try {
        await room.started
        // Whatever the room delivered before this follower came is before the end of this read.
        yield* readPast()
        for (let next = await follower.next(); next !== undefined; next = await follower.next())
          if (isAfter(next.cursor, at)) yield next
      } finally {
        leave(workspaceId, room, follower)
      }
    },
  }
}

type Follower<M> = {
  take(message: M): void
  /** Ends it: `next` throws the error. */
  fail(error: unknown): void
  /** Undefined when the signal is aborted. Throws for a follower that was too slow: it resumes after its last event. */
  next(): Promise<M | undefined>
}

function openFollower<M extends Message>(signal: AbortSignal): Follower<M> {
  let queue: M[] = []
  let bytes = 0
  let isTooSlow = false
  let fault: { readonly error: unknown } | undefined
  let wake = () => {}
  signal.addEventListener('abort', () => wake(), { once: true })
  return {
    take(message) {
      bytes += message.bytes
      // One message may be larger than the limit.
      if (bytes > PAGE_BYTES_MAX && queue.length > 0) {
        isTooSlow = true
        queue = []
      } else if (!isTooSlow) queue.push(message)
      wake()
    },
    fail(error) {
      fault = { error }
      wake()
    },
    async next() {
      while (queue.length === 0 && !isTooSlow && !fault && !signal.aborted)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      if (signal.aborted) return undefined
      if (isTooSlow) throw new Error('The follower was too slow for its events.')
      if (fault && queue.length === 0) throw fault.error
      const message = queue.shift()
      bytes -= message?.bytes ?? 0
      return message
    },
  }
}
