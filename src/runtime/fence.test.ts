import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isUuid } from '#kernel/ids'
import { fenceToken } from './fence.ts'

const numbers = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })

test('a token is a UUID, and tokens are ordered as their numbers', () => {
  fc.assert(
    fc.property(numbers, numbers, (left, right) => {
      const [a, b] = [fenceToken(left), fenceToken(right)]
      assert.ok(isUuid(a))
      assert.equal(a < b, left < right)
    }),
  )
  assert.equal(fenceToken(1), '00000000-0000-8001-8000-000000000000')
  assert.equal(fenceToken(0x1_2345_6789), '00000012-3456-8789-8000-000000000000')
})

test('a number that is not a whole number of at least 1 has no token', () => {
  for (const number of [0, -1, 1.5, Number.NaN, 2 ** 53])
    assert.throws(() => fenceToken(number), { code: 'runtime.fence.number' })
})
