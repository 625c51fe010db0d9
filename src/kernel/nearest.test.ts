/** Near names are found, far ones are not, and the distance is the one of the textbook. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { countSlips, didYouMean, nearest, nearestNames } from './nearest.ts'

const fields = ['task_name', 'payload', 'context', 'ingress', 'idempotency_key']

test('a slip, a swap, a missing letter and another case still find the name', () => {
  for (const typo of ['task_nmae', 'tsk_name', 'taskname', 'TASK_NAME', 'task_names'])
    assert.equal(nearest(typo, fields), 'task_name')
  assert.equal(nearest('paylaod', fields), 'payload')
  assert.deepEqual(didYouMean('contex', fields), { hint: 'Did you mean `context`?' })
})

test('another word is not offered', () => {
  assert.equal(nearest('banana', fields), undefined)
  assert.equal(nearest('zz', fields), undefined)
  assert.equal(nearest('x', []), undefined)
  assert.deepEqual(didYouMean('banana', fields), {})
})

test('the closest comes first, equals by name, and the order of the names does not matter', () => {
  assert.deepEqual(nearestNames('report', ['reports', 'rapport', 'reporz', 'retort', 'reporting']), [
    'reports',
    'reporz',
    'retort',
  ])
  assert.deepEqual(nearestNames('report', ['retort', 'reporz', 'rapport', 'reports']), ['reports', 'reporz', 'retort'])
  assert.deepEqual(nearestNames('aaa', ['aab', 'aab', 'aac'], 2), ['aab', 'aac'])
})

/** The full table, no band, no early end. */
function slipsInFull(left: string, right: string): number {
  const table = Array.from({ length: left.length + 1 }, (_, row) =>
    Array.from({ length: right.length + 1 }, (_, column) => (row === 0 ? column : column === 0 ? row : 0)),
  )
  const at = (row: number, column: number) => table[row]?.[column] ?? Infinity
  for (let row = 1; row <= left.length; row++)
    for (let column = 1; column <= right.length; column++) {
      const cost = left[row - 1] === right[column - 1] ? 0 : 1
      let least = Math.min(at(row - 1, column - 1) + cost, at(row - 1, column) + 1, at(row, column - 1) + 1)
      if (row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1])
        least = Math.min(least, at(row - 2, column - 2) + 1)
      const line = table[row]
      if (line) line[column] = least
    }
  return at(left.length, right.length)
}

test('the banded distance equals the full table up to the limit', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 9 })
  fc.assert(
    fc.property(word, word, fc.nat({ max: 4 }), (left, right, limit) => {
      assert.equal(countSlips(left, right, limit), Math.min(slipsInFull(left, right), limit + 1))
    }),
    { numRuns: 3_000 },
  )
})
