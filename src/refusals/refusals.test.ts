import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuse } from '#kernel/refusal'
import { hintOf, refusals, refusalTables } from './index.ts'

test('every code has a next step: one or two plain sentences', () => {
  for (const [code, [, hint]] of Object.entries(refusals)) {
    assert.match(hint, /^(?:[A-Z]+[a-z]*\b|`concord ).*\.$/s, code)
    assert.ok(hint.length >= 10 && hint.length <= 120, `${code}: ${hint.length} characters`)
    assert.doesNotMatch(hint, /please|sorry|error|something|invalid/i, code)
  }
})

test('the hint of the refusal goes before the hint of its code', () => {
  assert.equal(hintOf(refuse('limit_range', 'no', { hint: 'Use 7.' })), 'Use 7.')
  assert.equal(hintOf(refuse('limit_range', 'no')), refusals.limit_range[1])
})

test('no two rooms declare the same code', () => {
  const codes = Object.values(refusalTables).flatMap((table) => Object.keys(table))
  assert.equal(new Set(codes).size, codes.length)
})
