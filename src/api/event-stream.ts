/** Server-sent events from any async source: one frame per item, a beat when it is quiet, and no more read than is written. */
import type { Principal } from '#domains/identity'
import { accept, type Decision, refuse } from '#kernel/refusal'

/** An event as it goes over the wire; `cursor` is where a reader goes on after it. */
export type StreamedEvent = {
  readonly cursor: string
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

type FollowEvents = {
  readonly workspaceId: string
  /** Undefined starts with what happens from now on. */
  readonly after: string | undefined
  /** Undefined means all. */
  readonly types: readonly string[] | undefined
  readonly signal: AbortSignal
  /** Ends when everything that happened so far was given. */
  readonly untilNow: boolean
  /** Goes on although events behind the cursor were archived. */
  readonly skipArchived: boolean
}

/** The feed that the API streams from; the composition root makes it from the store's. */
export type EventFeed = {
  parseCursor(text: string): Decision<string>
  /** The place behind everything that happened so far. */
  findEnd(): Promise<string>
  /** A refusal when events behind the cursor were archived: the stream would leave them out. */
  check(workspaceId: string, after: string): Promise<Decision<unknown>>
  follow(input: FollowEvents): AsyncIterable<StreamedEvent>
}

export type StreamOptions = {
  /** Where the stream begins; a reader that is cut off before its first event goes on from here. */
  readonly start: string
  readonly heartbeatMs: number
  /** Asked with every beat: a credential that was revoked meanwhile ends the stream. */
  readonly isStillAllowed: () => Promise<boolean>
  readonly onError: (error: unknown) => void
  readonly onClose: () => void
}

const text = new TextEncoder()
/** How long a browser waits before it connects again. */
const openingOf = (start: string) => text.encode(`retry: 2000\nid: ${start}\n: open\n\n`)
const BEAT = text.encode(': beat\n\n')
/** A stream that was cut has no such frame, so a reader can tell "that was all" from "the line broke". */
const END = text.encode('event: end\ndata:\n\n')
const QUIET = Symbol('quiet')

export function frameOf({ cursor, type, data }: StreamedEvent): string {
  // JSON has no raw line breaks, and neither have cursors and types of ours.
  return `id: ${cursor}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Pulls one item at a time, and only when the reader has taken the one before: a slow reader slows the source down. */
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
    // A source that is waiting for its next item ends by the signal; it must not hold us up.
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
        // The reader left while we waited: there is nobody to write to, and nothing wrong.
        if (abort.signal.aborted) return
        if (item === QUIET) return controller.enqueue(BEAT)
        next = undefined
        if (!item.done) return controller.enqueue(text.encode(frameOf(item.value)))
        controller.enqueue(END)
        controller.close()
        finish()
      } catch (error) {
        if (abort.signal.aborted) return
        // The reader comes back with the last cursor it saw, so closing loses nothing.
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
  /** What came back is called once, when the stream has ended. */
  open(principal: Pick<Principal, 'keyId' | 'userId'>): Decision<() => void>
}

/** How many streams each key has open at once. */
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
