import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { canonicalJson } from './canonical-json.ts'
import type { JsonValue } from './json-value.ts'

/** Any JSON value; -0 is left out, since its canonical form is 0. */
const anyJson = fc.jsonValue({ maxDepth: 6 }).map((value) => JSON.parse(JSON.stringify(value)) as JsonValue)

/** The number of RFC 8785, appendix B, from its IEEE 754 bits. */
function doubleOf(bits: string): number {
  return new DataView(BigUint64Array.of(BigInt(`0x${bits}`)).buffer).getFloat64(0, true)
}

/** The same value with the keys of every object written in reverse. */
function reversed(value: JsonValue): JsonValue {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(reversed)
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, part]) => [key, reversed(part)]),
  )
}

describe('canonical JSON', () => {
  for (const [bits, text] of [
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555554', '333333333.33333325'],
    ['41b3de4355555555', '333333333.3333333'],
    ['41b3de4355555556', '333333333.3333334'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ] as const) {
    test(`writes the double ${bits} as ${text}`, () => assert.equal(canonicalJson(doubleOf(bits)), text))
  }

  test('sorts keys by UTF-16 units: a surrogate pair comes before U+FB33', () => {
    const value = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\ud83d\ude00': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    }
    const order = [...canonicalJson(value).matchAll(/:"([^"]+)"/g)].map((match) => match[1])
    assert.deepEqual(order, [
      'Carriage Return',
      'One',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ])
  })

  test('writes literals, nested sorting and escapes with no space and no needless escape', () => {
    const value = {
      string: '\u20ac$\u000f\nA\'B"\\\\"/\u2028',
      numbers: [Number('333333333.33333329'), 1e30, 4.5, 2e-3, 1e-27],
      literals: [null, true, false],
      empty: [{}, []],
    }
    assert.equal(
      canonicalJson(value),
      '{"empty":[{},[]],"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/\u2028"}',
    )
  })

  test('is read back as the same value, and writing that again changes nothing', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        const text = canonicalJson(value)
        assert.deepEqual(JSON.parse(text), value)
        assert.equal(canonicalJson(JSON.parse(text) as JsonValue), text)
      }),
    )
  })

  test('does not depend on the order of the keys', () => {
    fc.assert(fc.property(anyJson, (value) => assert.equal(canonicalJson(reversed(value)), canonicalJson(value))))
  })

  test('the keys of small and large objects are in the order of `sort`', () => {
    const keys = fc.uniqueArray(
      fc.string({ unit: 'binary', minLength: 1 }).filter((key) => key !== '__proto__'),
      { maxLength: 80, size: 'max' },
    )
    const prop = fc.property(keys, (given) => {
      const text = canonicalJson(Object.fromEntries(given.map((key) => [key, true])))
      assert.equal(
        text,
        `{${given
          .toSorted()
          .map((key) => `${JSON.stringify(key)}:true`)
          .join()}}`,
      )
    })
    fc.assert(prop, { examples: [[Array.from({ length: 33 }, (_, n) => `k${40 - n}`)]] })
  })

  test('different values have different texts', () => {
    fc.assert(
      fc.property(anyJson, anyJson, (left, right) => {
        const same = canonicalJson(left) === canonicalJson(right)
        if (same) assert.deepEqual(left, right)
        else assert.notDeepEqual(left, right)
      }),
    )
  })

  const cycle: unknown[] = []
  cycle.push(cycle)
  for (const [name, value] of [
    ['undefined', undefined],
    ['a property that is undefined', { a: undefined }],
    ['a hole in an array', Array(1)],
    ['NaN', [Number.NaN]],
    ['infinity', Number.NEGATIVE_INFINITY],
    ['a bigint', 1n],
    ['a function', () => 1],
    ['a date', new Date(0)],
    ['a map', new Map()],
    ['half a pair in a value', '\ud800'],
    ['half a pair in a key', { '\udc00': 1 }],
    ['a cycle', cycle],
  ] as const) {
    test(`${name} is a fault, not a text`, () => {
      // Values that break the type on purpose.
      assert.throws(() => canonicalJson(value as unknown as JsonValue), {
        name: 'KernelFault',
        code: 'canonical_json.not_json',
      })
    })
  }
})
