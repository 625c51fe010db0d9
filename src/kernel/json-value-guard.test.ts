import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { guardValue, parseGuardedJson } from './json-guard.ts'

const answer = (value: unknown) => {
  const decision = guardValue(value)
  return decision.ok ? ['accepted', undefined] : [decision.code, decision.path]
}
/** Written as a text, since a literal with __proto__ would set the prototype. */
const poisoned: unknown = JSON.parse('{"a":[{"__proto__":1}]}')
const cycle: { self?: unknown; list: unknown[] } = { list: [] }
cycle.list.push({ back: cycle })
const levels = (count: number) => JSON.parse('['.repeat(count) + ']'.repeat(count)) as unknown

describe('JSON guard for values', () => {
  for (const [name, value, code, path] of [
    ['undefined', undefined, 'json_syntax', undefined],
    ['a property that is undefined', { a: { b: undefined } }, 'json_syntax', 'a.b'],
    ['a hole', [0, ...Array(1)], 'json_syntax', '[1]'],
    ['a function', { toJSON: () => 1 }, 'json_syntax', 'toJSON'],
    ['a symbol', [Symbol('x')], 'json_syntax', '[0]'],
    ['a date', { at: new Date(0) }, 'json_syntax', 'at'],
    ['a map', [new Map()], 'json_syntax', '[0]'],
    ['NaN', { budget: Number.NaN }, 'number_out_of_range', 'budget'],
    ['infinity', [1, Number.POSITIVE_INFINITY], 'number_out_of_range', '[1]'],
    ['a bigint', { n: 9007199254740993n }, 'number_out_of_range', 'n'],
    ['NUL in a value', { a: ['\0'] }, 'nul_character', 'a[0]'],
    ['NUL in a key', { 'a\0': 1 }, 'nul_character', '["a\\u0000"]'],
    ['half a pair', { a: 'x\ud800' }, 'invalid_unicode', 'a'],
    ['a forbidden key', poisoned, 'key_forbidden', 'a[0].__proto__'],
    ['a cycle', cycle, 'json_too_deep', 'list[0].back'],
    ['33 levels', levels(33), 'json_too_deep', '[0]'.repeat(32)],
    ['too many keys', Array.from({ length: 10_001 }, () => ({ k: 0 })), 'json_too_many_keys', '[10000].k'],
    ['too many bytes', 'x'.repeat(1_048_575), 'body_too_large', undefined],
  ] as const) {
    test(`${name}: ${code}`, () => assert.deepEqual(answer(value), [code, path]))
  }

  test('the largest of everything is accepted and given back as it is', () => {
    for (const value of [levels(32), 'x'.repeat(1_048_574), Object.create(null), null, [], -0]) {
      const decision = guardValue(value)
      assert.ok(decision.ok && Object.is(decision.value, value))
    }
  })

  test('a value that shares its parts is counted as it would be written, so the walk ends', () => {
    let shared: unknown = []
    for (let level = 0; level < 31; level++) shared = [shared, shared]
    assert.deepEqual(answer(shared), ['body_too_large', undefined])
    const part = { a: 1 }
    assert.deepEqual(answer([part, part]), ['accepted', undefined])
  })

  test('counts exactly the bytes that the JSON text has', () => {
    const harmless = fc.jsonValue({
      maxDepth: 5,
      stringUnit: fc.constantFrom('a', '"', '\n', 'é', '€', '😀', '\u2028'),
    })
    fc.assert(
      fc.property(harmless, (value) => {
        const sizeBytes = Buffer.byteLength(JSON.stringify(value))
        const limits = { depthMax: 32, keysMax: 10_000 }
        assert.equal(guardValue(value, { ...limits, bytesMax: sizeBytes }).ok, true)
        assert.equal(guardValue(value, { ...limits, bytesMax: sizeBytes - 1 }).ok, false)
      }),
      { numRuns: 500 },
    )
  })

  test('agrees with the guard for texts on every JSON value', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 5, stringUnit: 'binary' }),
        fc.nat({ max: 80 }),
        fc.nat({ max: 3 }),
        fc.nat({ max: 3 }),
        (value, bytesMax, depthMax, keysMax) => {
          const limits = { bytesMax, depthMax, keysMax }
          assert.equal(guardValue(value, limits).ok, parseGuardedJson(JSON.stringify(value), limits).ok)
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
