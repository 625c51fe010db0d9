import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { idField, instantField, isSlug, parseName, parseSlug, refusalOfIssue } from './fields.ts'

test('a short name is lower case, digits and inner hyphens, up to 63 characters', () => {
  for (const good of ['a', '0', 'default', 'a-b', 'x'.repeat(63)]) assert.equal(isSlug(good), true, good)
  for (const bad of ['', '-a', 'a-', 'A', 'a_b', 'a b', 'é', 'x'.repeat(64), 'a\n', 'a\u0000']) {
    assert.equal(isSlug(bad), false, JSON.stringify(bad))
    assert.equal(parseSlug(bad).ok, false)
  }
})

test('a name shows everything it has: hidden characters, outer blanks and excess length are refused', () => {
  assert.deepEqual(parseName('Zoë'.normalize('NFD')), { ok: true, value: 'Zoë' })
  for (const bad of ['', ' a', 'a ', 'a\u0000', 'a\u200bb', 'a\u202eb', 'a\ufeff', 'a\nb', 'x'.repeat(201), '\ud800']) {
    assert.equal(parseName(bad).ok, false, JSON.stringify(bad))
  }
})

test("a field refused by a parser keeps the parser's own code", () => {
  const shape = z.strictObject({ id: idField('user'), at: instantField() })
  const { error } = shape.safeParse({ id: '{01}', at: '2026-02-30T00:00:00Z' })
  assert.deepEqual(
    error?.issues.map((issue) => refusalOfIssue(issue)?.code),
    ['id_format', 'date_invalid'],
  )
  assert.equal(refusalOfIssue({ code: 'invalid_type' }), undefined)
})
