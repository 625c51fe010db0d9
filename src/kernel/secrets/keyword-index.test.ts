/** One pass finds the same keywords as a search for each of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { indexKeywords } from './keyword-index.ts'

test('one pass finds what a search for each keyword finds', () => {
  const word = fc.stringMatching(/^[ab_.]{1,5}$/)
  const text = fc
    .array(fc.constantFrom('a', 'b', 'A', 'B', '_', '.', 'é', 'c', '\u{1f600}'))
    .map((parts) => parts.join(''))
  fc.assert(
    fc.property(fc.uniqueArray(word, { minLength: 1, maxLength: 12 }), text, (keywords, given) => {
      const found = [...(indexKeywords(keywords)(given) ?? [])].map((position) => keywords[position])
      const expected = keywords.filter((keyword) => given.toLowerCase().includes(keyword))
      assert.deepEqual(new Set(found), new Set(expected))
    }),
    { numRuns: 1_000 },
  )
})
