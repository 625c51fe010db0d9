/** Cursors: ours are accepted, all others are refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cursorOf, feedStart, parseCursor } from './feed.ts'

test('every position survives the round trip through a cursor', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
      (xid, seq) => {
        const place = { xid: String(xid), seq: String(seq) }
        assert.deepEqual(parseCursor(cursorOf(place)), { ok: true, value: place })
      },
    ),
  )
  assert.ok(parseCursor(feedStart).ok)
})

test('anything else is refused with one code, and never with an exception', () => {
  const wrong = [
    '',
    '1',
    '1.',
    '.1',
    '01.1',
    '1.01',
    '-1.1',
    '1.1.1',
    '1.1 ',
    '1e3.1',
    `${2n ** 64n}.1`,
    `1.${2n ** 63n}`,
    "1.1' or 1=1",
  ]
  for (const cursor of wrong) assert.equal((parseCursor(cursor) as { code?: string }).code, 'cursor_invalid', cursor)
  fc.assert(
    fc.property(fc.string(), (text) => {
      const parsed = parseCursor(text)
      assert.ok(parsed.ok ? cursorOf(parsed.value) === text : parsed.code === 'cursor_invalid')
    }),
  )
})
