/** The lower bound of a rate: what few tasks prove. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { lowerBoundOf, suggest } from './outcomes.ts'

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

test('suggestions rank agents and models by the lower bound over all their tasks, and show the numbers', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g')
  const row = fc
    .record({
      agent: name,
      model: fc.option(name),
      ended: fc.integer({ min: 1, max: 500 }),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
    })
    .map(({ part, ...each }) => ({ ...each, completed: Math.round(each.ended * part) }))
  fc.assert(
    fc.property(fc.array(row, { maxLength: 30 }), (rows) => {
      const found = suggest(rows)
      assert.deepEqual(suggest(rows.toReversed()), found, 'the order of the rows does not matter')
      for (const [field, ranked] of [
        ['agent', found.agents],
        ['model', found.models],
      ] as const) {
        const names = new Set(rows.flatMap((each) => each[field] ?? []))
        assert.equal(ranked.length, Math.min(5, names.size))
        const boundOf = (of: string) => {
          const own = rows.filter((each) => each[field] === of)
          const [completed, ended] = [
            own.reduce((n, each) => n + each.completed, 0),
            own.reduce((n, each) => n + each.ended, 0),
          ]
          return { ended, completed, success_at_least: lowerBoundOf(completed, ended) }
        }
        for (const { name: shown, ...numbers } of ranked) assert.deepEqual(numbers, boundOf(shown))
        const least = Math.min(1, ...ranked.map(({ success_at_least }) => success_at_least))
        const left = [...names].filter((each) => !ranked.some(({ name: shown }) => shown === each))
        assert.ok(left.every((each) => boundOf(each).success_at_least <= least))
        assert.deepEqual(
          ranked,
          ranked.toSorted((a, b) => b.success_at_least - a.success_at_least),
        )
      }
    }),
  )
})
