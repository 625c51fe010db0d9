/** Streams an async source as server-sent events with heartbeats and backpressure, and limits the open streams of a key. */
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
  /** Called with every heartbeat: a revoked credential ends the stream. */
  readonly isStillAllowed: () => Promise<boolean>
  readonly onError: (error: unknown) => void
  readonly onClose: () => void
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

/** Pulls one item at a time, after the reader has taken the previous one, so that a slow reader slows the source down. */
export function streamEvents(
  follow: (signal: AbortSignal) => AsyncIterable<StreamedEvent>,
  { start, heartbeatMs, isStillAllowed, onError, onClose }: StreamOptions,
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
    onClose()
  }

  return new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(openingOf(start)),
    async pull(controller) {
      try {
        next ??= source.next()
        const item = await orQuiet(next, beatAtMs - performance.now())
        if (item === QUIET || performance.now() >= beatAtMs) {
          beatAtMs = performance.now() + heartbeatMs
          if (!(await isStillAllowed())) {
            controller.close()
            return finish()
          }
        }
        // The reader left meanwhile, which is not an error.
        if (abort.signal.aborted) return
        if (item === QUIET) return controller.enqueue(BEAT)
        next = undefined
        if (!item.done) return controller.enqueue(text.encode(frameOf(item.value)))
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

export type StreamCount = {
  /** Returns the function to call once, when the stream has ended. */
  open(principal: Pick<Principal, 'keyId' | 'userId'>): Decision<() => void>
}

/** Counts the open streams of each key. */
export function openStreamCount(perKeyMax: number): StreamCount {
  const counts = new Map<string, number>()
  return {
    open({ keyId, userId }) {
      const owner = keyId ?? userId
      const count = counts.get(owner) ?? 0
      if (count >= perKeyMax) {
        return refuse('api.streams.exceeded', `This key has ${count} streams open, which is the limit.`)
      }
      counts.set(owner, count + 1)
      return accept(() => {
        const left = (counts.get(owner) ?? 1) - 1
        if (left > 0) counts.set(owner, left)
        else counts.delete(owner)
      })
    },
  }
}
