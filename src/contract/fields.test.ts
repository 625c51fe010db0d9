import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import fc from 'fast-check'
import { parseCron } from '#kernel/cron'
import { durationForm, MAX_DURATION_MS, parseDuration } from '#kernel/duration'
import { lineForm } from '#kernel/visible-text'
import { cronField, idField, instantField, isSlug, parseName, parseSlug, refusalOfIssue, textField } from './fields.ts'

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

test('[L2] the form of a line in the document is what a name may be, for every character but those of private planes', () => {
  const line = new RegExp(lineForm, 'u')
  const hidden = /[\p{Cc}\p{Cf}\p{Co}\p{DI}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u
  const wrong: string[] = []
  for (let code = 0; code < 0xf_0000; code += 1) {
    if (code >= 0xd8_00 && code <= 0xdf_ff) continue
    const char = String.fromCodePoint(code)
    const isStated = line.test(`a${char}b`)
    if (isStated !== parseName(`a${char}b`).ok || (isStated && hidden.test(char))) wrong.push(code.toString(16))
  }
  assert.deepEqual(wrong, [])
})

test('[L2] a length counts characters, as the document does', () => {
  const emoji = '\u{1f600}'
  assert.equal(parseName(emoji.repeat(200)).ok, true)
  assert.equal(parseName(emoji.repeat(201)).ok, false)
  assert.equal(textField(500).safeParse(emoji.repeat(500)).success, true)
  const { error } = textField(500).safeParse(emoji.repeat(501))
  assert.deepEqual(
    error?.issues.map(({ code }) => code),
    ['too_big'],
  )
})

test('[L2] the form of a duration is exactly what the parser accepts', () => {
  for (const maxMs of [60_000, MAX_DURATION_MS]) {
    const form = new RegExp(durationForm(maxMs))
    const isShort = (text: string) => {
      const parsed = parseDuration(text)
      return parsed.ok && parsed.value <= maxMs
    }
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 40_000_000_000n }),
        fc.constantFrom('ms', 's', 'm', 'h', 'd'),
        (count, unit) => {
          assert.equal(form.test(`${count}${unit}`), isShort(`${count}${unit}`))
        },
      ),
      {
        examples: [
          [60n, 's'],
          [61n, 's'],
          [366n, 'd'],
          [367n, 'd'],
          [0n, 'ms'],
          [31_622_400_000n, 'ms'],
        ],
      },
    )
  }
})

test('[L2] every expression that the parser accepts has the form of a cron expression', () => {
  const { pattern } = cronField().meta() as { pattern: string }
  const item = fc.oneof(
    fc.constant('*'),
    fc.constant('*/5'),
    fc.integer({ min: 0, max: 59 }).map(String),
    fc.constantFrom('MON-fri', 'jan', '1-5/2'),
  )
  fc.assert(
    fc.property(fc.array(item, { minLength: 4, maxLength: 6 }), fc.constantFrom(' ', '\t', '  '), (words, gap) => {
      const text = words.join(gap)
      if (parseCron(text).ok) assert.match(text, new RegExp(pattern))
      else assert.equal(new RegExp(pattern).test(text), words.length === 5)
    }),
  )
})
