/** Streams an async source as server-sent events with heartbeats and backpressure, limits the open streams of a key, and ends those that lost their right. */
import type { Principal } from '#domains/identity'
import { accept, type Decision, refuse } from '#kernel/refusal'

/** An event on the wire; `cursor` resumes the stream after it. */
export type StreamedEvent = {
  readonly cursor: string
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

type StreamOptions = {
  /** The start cursor; a client that disconnects before its first event resumes here. */
  readonly start: string
  readonly heartbeatMs: number
  readonly place: StreamPlace
  readonly onError: (error: unknown) => void
}

const text = new TextEncoder()
/** `retry` is the time that a browser waits before it reconnects. */
const openingOf = (start: string) => text.encode(`retry: 2000\nid: ${start}\n: open\n\n`)
const BEAT = text.encode(': beat\n\n')
/** Marks a complete stream; an interrupted one has no such frame. */
const END = text.encode('event: end\ndata:\n\n')
const QUIET = Symbol('quiet')

export function frameOf({ cursor, type, data }: StreamedEvent): string {
  // JSON contains no raw line breaks, nor do cursors and event types.
  return `id: ${cursor}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`
}

const frames = new WeakMap<StreamedEvent, Uint8Array>()

/** One event is the same bytes for every stream. */
export function encodeFrame(event: StreamedEvent): Uint8Array {
  const known = frames.get(event) ?? text.encode(frameOf(event))
  frames.set(event, known)
  return known
}

/** Pulls one item at a time, after the reader has taken the previous one, so that a slow reader slows the source down. */
export function streamEvents(
  follow: (signal: AbortSignal) => AsyncIterable<StreamedEvent>,
  { start, heartbeatMs, place, onError }: StreamOptions,
): ReadableStream<Uint8Array> {
  const abort = new AbortController()
  const source = follow(abort.signal)[Symbol.asyncIterator]()
  let next: Promise<IteratorResult<StreamedEvent>> | undefined
  let beatAtMs = performance.now() + heartbeatMs
  function finish(): void {
    if (abort.signal.aborted) return
    abort.abort()
    // The signal ends a source that waits for its next item; it is not awaited.
    next?.catch(() => {})
    void source.return?.()?.then(undefined, () => {})
    place.close()
  }

  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(openingOf(start))
      place.onEnded(() => {
        if (!abort.signal.aborted) controller.close()
        finish()
      })
    },
    async pull(controller) {
      try {
        next ??= source.next()
        const item = await orQuiet(next, beatAtMs - performance.now())
        if (item === QUIET || performance.now() >= beatAtMs) {
          beatAtMs = performance.now() + heartbeatMs
          await place.check()
        }
        // The reader left meanwhile, which is not an error.
        if (abort.signal.aborted) return
        if (item === QUIET) return controller.enqueue(BEAT)
        next = undefined
        if (!item.done) return controller.enqueue(encodeFrame(item.value))
        controller.enqueue(END)
        controller.close()
        finish()
      } catch (error) {
        if (abort.signal.aborted) return
        // The reader reconnects with its last cursor, so closing loses nothing.
        onError(error)
        controller.close()
        finish()
      }
    },
    cancel: finish,
  })
}

async function orQuiet<T>(work: Promise<T>, waitMs: number): Promise<T | typeof QUIET> {
  let timer: NodeJS.Timeout | undefined
  const quiet = new Promise<typeof QUIET>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, waitMs), QUIET)
  })
  try {
    return await Promise.race([work, quiet])
  } finally {
    clearTimeout(timer)
  }
}

/** The place of one stream among those of its key. */
export type StreamPlace = {
  /** Asks whether the stream is still allowed, and ends it if not. */
  check(): Promise<void>
  /** Called when the stream has lost its right, or at once if it has already. */
  onEnded(end: () => void): void
  /** Called once, when the stream has ended. */
  close(): void
}

/** How long a caller still has the right to a stream; undefined: no longer. */
type StreamRight = () => Promise<number | undefined>

export type Streams = {
  /** Takes a place. Call it before the first await: streams that arrive together are counted too. */
  open(principal: Pick<Principal, 'keyId' | 'userId'>, right: StreamRight): Decision<StreamPlace>
  /** Checks every stream. When it resolves, those without a right have ended. */
  check(): Promise<void>
}

/** A timer of Node fires at once when it is set for longer. */
const TIMER_MAX_MS = 2 ** 31 - 1

export function openStreams(perKeyMax: number): Streams {
  const places = new Map<string, Set<StreamPlace>>()
  return {
    open({ keyId, userId }, right) {
      const owner = keyId ?? userId
      const own = places.get(owner) ?? new Set()
      if (own.size >= perKeyMax)
        return refuse('api.streams.exceeded', `This key has ${own.size} streams open, which is the limit.`)
      const place = newPlace(right, () => {
        own.delete(place)
        if (own.size === 0) places.delete(owner)
      })
      places.set(owner, own.add(place))
      return accept(place)
    },
    async check() {
      await Promise.all([...places.values()].flatMap((own) => [...own].map((place) => place.check())))
    },
  }
}

function newPlace(right: StreamRight, leave: () => void): StreamPlace {
  const ended = new AbortController()
  let expiry: NodeJS.Timeout | undefined
  const place: StreamPlace = {
    async check() {
      // Without an answer the stream ends too: its client reconnects with its last cursor.
      const leftMs = await right().catch(() => undefined)
      clearTimeout(expiry)
      if (leftMs === undefined) ended.abort()
      else if (!ended.signal.aborted && leftMs < TIMER_MAX_MS)
        expiry = setTimeout(() => void place.check(), Math.ceil(leftMs) + 1).unref()
    },
    onEnded(end) {
      if (ended.signal.aborted) end()
      else ended.signal.addEventListener('abort', end, { once: true })
    },
    close() {
      clearTimeout(expiry)
      ended.abort()
      leave()
    },
  }
  return place
}
