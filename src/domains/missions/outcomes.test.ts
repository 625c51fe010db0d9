/** The lower bound of a rate: what few tasks prove. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { lowerBoundOf } from './outcomes.ts'

test('the lower bound is below the rate, and rises with each success and with each repetition of the same rate', () => {
  assert.equal(lowerBoundOf(0, 0), 0)
  assert.equal(lowerBoundOf(0, 5), 0)
  // The values of the published formula.
  assert.equal(lowerBoundOf(1, 1).toFixed(4), '0.2065')
  assert.equal(lowerBoundOf(90, 100).toFixed(4), '0.8256')
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000 }), fc.double({ min: 0, max: 1, noNaN: true }), (count, part) => {
      const successes = Math.round(count * part)
      const bound = lowerBoundOf(successes, count)
      assert.ok(bound >= 0 && bound <= successes / count)
      if (successes > 0) {
        assert.ok(bound > lowerBoundOf(successes - 1, count))
        assert.ok(bound < lowerBoundOf(2 * successes, 2 * count))
      }
    }),
  )
})
