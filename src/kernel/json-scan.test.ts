import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parseGuardedJson } from './json-guard.ts'
import type { JsonValue } from './json-value.ts'

describe('JSON scan, any text', () => {
  const unguarded = new Set(['json_syntax', 'body_missing'])

  test('any JSON value within the limits is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 8, stringUnit: 'grapheme' }),
        fc.constantFrom(undefined, 2, '\t'),
        (value, space) => {
          const text = JSON.stringify(value, null, space)
          const decision = parseGuardedJson(text)
          const expected = JSON.parse(text) as JsonValue
          if (decision.ok) assert.deepEqual(decision.value, expected)
          else assert.ok(['key_forbidden', 'nul_character'].includes(decision.code), decision.code)
        },
      ),
    )
  })

  /** A JSON text with pieces cut out, put in and swapped. */
  const pieces = fc.constantFrom(
    '"',
    '\\',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '-',
    '0',
    '1',
    '.',
    'e',
    'E',
    '+',
    'true',
    'nul',
    ' ',
    '\n',
    '\u0000',
    '\\u',
    '\\ud83d',
    '\ude00',
    '"a":1',
    '"a"',
    '9007199254740993',
    '1e400',
    '\ufeff',
    '//',
  )
  const edits = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 3 }), pieces), { maxLength: 4 })
  const mutated = fc.tuple(fc.jsonValue({ maxDepth: 4 }), edits).map(([value, changes]) => {
    let text = JSON.stringify(value)
    for (const [place, cut, piece] of changes) {
      const at = place % (text.length + 1)
      text = text.slice(0, at) + piece + text.slice(at + cut)
    }
    return text
  })

  test('a mutated text never throws: it is refused, or read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          mutated,
          fc.array(pieces, { maxLength: 12 }).map((list) => list.join('')),
        ),
        (text) => {
          const decision = parseGuardedJson(text)
          let expected: unknown
          let isJson = true
          try {
            expected = JSON.parse(text)
          } catch {
            isJson = false
          }
          if (decision.ok) {
            assert.ok(isJson)
            assert.deepEqual(decision.value, expected)
          } else if (isJson) assert.ok(!unguarded.has(decision.code), `${decision.code} for the JSON ${text}`)
        },
      ),
      { numRuns: 5_000 },
    )
  })
})
