/** A position in a feed, as text: the transaction and the number within it. Opaque to callers, validated on return. */
import { accept, type Decision, refuse } from '#kernel/refusal'

export type FeedPlace = { readonly xid: string; readonly seq: string }

const SHAPE = /^(0|[1-9][0-9]{0,19})\.(0|[1-9][0-9]{0,18})$/
const XID_MAX = 2n ** 64n - 1n
const SEQ_MAX = 2n ** 63n - 1n

/** Before the first event. */
export const feedStart = '0.0'

export function cursorOf({ xid, seq }: FeedPlace): string {
  return `${xid}.${seq}`
}

export function parseCursor(cursor: string): Decision<FeedPlace> {
  const [, xid, seq] = SHAPE.exec(cursor) ?? []
  if (xid === undefined || seq === undefined || BigInt(xid) > XID_MAX || BigInt(seq) > SEQ_MAX) {
    return refuse('cursor_invalid', 'This is not a cursor of this feed.', {
      hint: 'Start without a cursor, or send one back unchanged.',
    })
  }
  return accept({ xid, seq })
}
