import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import fc from 'fast-check'
import { cronForm, parseCron } from '#kernel/cron'
import { durationForm, MAX_DURATION_MS, parseDuration } from '#kernel/duration'
import { lineForm } from '#kernel/visible-text'
import { idField, instantField, isSlug, parseName, parseSlug, refusalOfIssue, textField } from './fields.ts'

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

test('[L2] the form of a cron expression is what the parser accepts, but for ranges that end before they begin', () => {
  const form = new RegExp(cronForm)
  const value = fc.oneof(
    fc.integer({ min: 0, max: 61 }).map(String),
    fc.constantFrom('00', '07', '100', 'jan', 'DEC', 'Sun', 'sat', 'x', ''),
  )
  const item = fc.oneof(
    fc.constantFrom('*', '*/5', '*/0', '*/99', '**', '*-5', '5/2'),
    value,
    fc.tuple(value, value).map((ends) => ends.join('-')),
    fc.tuple(value, value, value).map(([from, to, step]) => `${from}-${to}/${step}`),
  )
  const field = fc.array(item, { minLength: 1, maxLength: 2 }).map((items) => items.join(','))
  const fits = fc.oneof(fc.constant('*'), field)
  fc.assert(
    fc.property(fc.array(fits, { minLength: 4, maxLength: 6 }), fc.constantFrom(' ', '\t', '  '), (words, gap) => {
      const text = words.join(gap)
      const parsed = parseCron(text)
      if (parsed.ok || parsed.code === 'cron_never') assert.match(text, form)
      else if (!text.includes('-')) assert.doesNotMatch(text, form)
    }),
    {
      examples: [
        [['59', '23', '31', '12', '7'], ' '],
        [['60', '*', '*', '*', '*'], ' '],
        [['*', '*', '*', '*', '8'], ' '],
      ],
    },
  )
})
