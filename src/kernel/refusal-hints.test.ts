import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuse } from './refusal.ts'
import { refusalCodes } from './refusal-codes.ts'
import { hintOf, refusalHints } from './refusal-hints.ts'

test('every code has a next step: one or two plain sentences', () => {
  assert.deepEqual(Object.keys(refusalHints).toSorted(), Object.keys(refusalCodes).toSorted())
  for (const [code, hint] of Object.entries(refusalHints)) {
    assert.match(hint, /^(?:[A-Z]+[a-z]*\b|`concord ).*\.$/s, code)
    assert.ok(hint.length >= 10 && hint.length <= 120, `${code}: ${hint.length} characters`)
    assert.doesNotMatch(hint, /please|sorry|error|something|invalid/i, code)
  }
})

test('what is said where it was refused goes before what is said of the code', () => {
  assert.equal(hintOf(refuse('limit_range', 'no', { hint: 'Use 7.' })), 'Use 7.')
  assert.equal(hintOf(refuse('limit_range', 'no')), refusalHints.limit_range)
})
