import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isUuid } from '#kernel/ids'
import { decideFence, fenceNumber, fenceToken } from './fence.ts'

const numbers = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })

test('a token is a UUID, gives its number back, and is ordered as the numbers are', () => {
  fc.assert(
    fc.property(numbers, numbers, (left, right) => {
      const [a, b] = [fenceToken(left), fenceToken(right)]
      assert.ok(isUuid(a))
      assert.equal(fenceNumber(a), left)
      assert.equal(a < b, left < right)
    }),
  )
  assert.equal(fenceToken(1), '00000000-0000-8001-8000-000000000000')
  assert.equal(fenceToken(0x1_2345_6789), '00000012-3456-8789-8000-000000000000')
})

test('nothing else is a fence', () => {
  for (const number of [0, -1, 1.5, Number.NaN, 2 ** 53])
    assert.throws(() => fenceToken(number), { code: 'runtime.fence.number' })
  const tokens = ['', 'x', '0197f0c4-0000-7000-8000-000000000000', '00000000-0000-8000-8000-000000000000']
  for (const token of tokens) assert.equal(fenceNumber(token), undefined)
})

test('the greater token writes; the smaller one is refused because it lost the row', () => {
  const [older, newer] = [fenceToken(7), fenceToken(8)]
  assert.equal(decideFence(null, older).ok, true)
  assert.equal(decideFence(older, older).ok, true)
  assert.equal(decideFence(older, newer).ok, true)
  const lost = decideFence(newer, older)
  assert.equal(lost.ok ? '' : lost.code, 'lease.lost')
})
