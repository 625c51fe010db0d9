/** The cut is by characters, and its result can be stored. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cutText } from './cut-text.ts'

test('a cut text is the longest start that fits, and no character of it is cut in half', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'é', '✓', '😀', '𝄞'), maxLength: 30 })
  fc.assert(
    fc.property(text, fc.integer({ min: 0, max: 20 }), (whole, max) => {
      const cut = cutText(whole, max)
      assert.ok(cut.isWellFormed() && whole.startsWith(cut))
      assert.equal(Array.from(cut).length, Math.min(max, Array.from(whole).length))
    }),
  )
})

test('what Postgres cannot store is replaced', () => {
  assert.equal(cutText('a\0b\uD83Dc', 10), 'a\uFFFDb\uFFFDc')
})
