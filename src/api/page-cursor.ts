/** Opaque page cursors, sealed with a key and bound to their list: a modified or foreign cursor is refused. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { accept, type Decision, refuse } from '#kernel/refusal'

/** The operation, the tenant and every filter: a cursor of one list opens no other. */
export type CursorScope = readonly (string | null)[]
/** The sort values of the last row of a page. */
export type Position = readonly string[]

const MAC_BYTES = 16
const CURSOR_CHARS_MAX = 1_024

export type PageCursors = {
  seal(scope: CursorScope, position: Position): string
  open(scope: CursorScope, cursor: string): Decision<Position>
}

export function openPageCursors(key: Uint8Array): PageCursors {
  const mac = (scope: CursorScope, body: Buffer) =>
    createHmac('sha256', key).update(JSON.stringify(scope)).update('\0').update(body).digest().subarray(0, MAC_BYTES)
  return {
    seal(scope, position) {
      const body = Buffer.from(JSON.stringify(position), 'utf8')
      return Buffer.concat([mac(scope, body), body]).toString('base64url')
    },
    open(scope, cursor) {
      const bytes = cursor.length <= CURSOR_CHARS_MAX ? Buffer.from(cursor, 'base64url') : Buffer.alloc(0)
      // Node ignores characters outside base64url; only the exact encoding is accepted.
      if (bytes.length <= MAC_BYTES || bytes.toString('base64url') !== cursor) return invalid()
      const body = bytes.subarray(MAC_BYTES)
      if (!timingSafeEqual(mac(scope, body), bytes.subarray(0, MAC_BYTES))) return invalid()
      // The seal proves that `seal` wrote it, so the shape is known.
      return accept(JSON.parse(body.toString('utf8')) as string[])
    },
  }
}

function invalid() {
  return refuse('cursor_invalid', 'This cursor does not belong to this list.', {
    path: 'cursor',
    hint: 'Use next_cursor of the previous page with the same filters, or omit it to start again.',
  })
}
