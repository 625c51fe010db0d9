import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { decideKeys, parseIdempotencyKey, parseKeyTemplate } from './idempotency-key.ts'
import type { Decision } from './refusal.ts'

const shown = (decision: Decision<unknown>) => (decision.ok ? decision.value : decision.code)
function aTemplate(text: string) {
  const decision = parseKeyTemplate(text)
  assert.ok(decision.ok)
  return decision.value
}

describe('idempotency key', () => {
  for (const key of [
    'a',
    'generate_report:monthly_revenue:2026-05',
    'zimmer für zwei',
    'é',
    '東京:1',
    '😀',
    'x'.repeat(255),
    '😀'.repeat(255),
  ]) {
    test(`takes ${key.slice(0, 40)}`, () => assert.equal(shown(parseIdempotencyKey(key)), key))
  }

  for (const key of ['x'.repeat(256), '😀'.repeat(256), 'x'.repeat(100_000)]) {
    test(`refuses ${key.length} units as too long`, () => {
      const decision = parseIdempotencyKey(key)
      assert.equal(shown(decision), 'key_too_long')
      assert.ok(!decision.ok && decision.reason.includes('1 to 255'))
    })
  }

  for (const [name, key] of [
    ['nothing', ''],
    ['a space in front', ' a'],
    ['a space behind', 'a '],
    ['a tab', 'a\tb'],
    ['NUL', 'a\0'],
    ['a line end', 'a\n'],
    ['C1 control', 'a\u0085b'],
    ['zero width space', 'a\u200bb'],
    ['zero width joiner', 'a\u200db'],
    ['byte order mark', '\ufeffa'],
    ['word joiner', 'a\u2060'],
    ['soft hyphen', 'a\u00adb'],
    ['right-to-left override', 'a\u202eb'],
    ['isolate', '\u2066a\u2069'],
    ['no-break space', 'a\u00a0b'],
    ['line separator', 'a\u2028b'],
    ['Hangul filler', 'a\u3164'],
    ['variation selector', 'a\ufe0f'],
    ['private use', 'a\ue000'],
    ['half a pair', 'a\ud800'],
    ['decomposed e', 'e\u0301'],
    ['the Ångström sign', '\u212b'],
  ] as const) {
    test(`refuses ${name}`, () => assert.equal(shown(parseIdempotencyKey(key)), 'key_characters'))
  }

  test('what is taken is given back unchanged and is in NFC', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
        const decision = parseIdempotencyKey(text)
        if (!decision.ok) return
        assert.equal(decision.value, text)
        assert.equal(text.normalize('NFC').trim(), text)
        const characters = Array.from(text).length
        assert.ok(characters >= 1 && characters <= 255)
      }),
    )
  })

  const keys = (...asked: Parameters<typeof decideKeys>) => {
    const decided = decideKeys(...asked)
    return decided.ok ? [decided.value.caller, decided.value.contract] : decided.code
  }

  test('[CMD-21] a contract that requires a key refuses a submit without one', () => {
    assert.equal(keys({ required: true }, undefined, {}), 'idempotency.key.required')
    assert.deepEqual(keys({ required: true }, 'k1', {}), ['k1', undefined])
    assert.equal(keys({ required: true }, '', {}), 'key_characters')
    assert.deepEqual(keys({ required: false }, undefined, {}), [undefined, undefined])
  })

  test('[CMD-21] a contract that requires a key refuses a payload which cannot fill its template', () => {
    const contract = { required: true, template: aTemplate('book_hotel:{booking_draft_id}') }
    assert.deepEqual(keys(contract, undefined, { booking_draft_id: 'd7' }), [undefined, 'book_hotel:d7'])
    for (const sent of [undefined, 'k1']) {
      const decision = decideKeys(contract, sent, { draft: 'd7' })
      assert.equal(shown(decision), 'idempotency.field.missing')
      assert.ok(!decision.ok && decision.path === 'booking_draft_id' && decision.reason.includes('booking_draft_id'))
    }
  })

  test('[H1] the template makes the key of the contract whether or not the caller sends a key', () => {
    const contract = { required: false, template: aTemplate('r:{month}') }
    assert.deepEqual(keys(contract, undefined, { month: '2026-05' }), [undefined, 'r:2026-05'])
    assert.deepEqual(keys(contract, undefined, {}), [undefined, undefined])
    assert.deepEqual(keys(contract, 'mine', { month: '2026-05' }), ['mine', 'r:2026-05'])
  })

  test('a key made from a payload obeys the same rules as a sent one, and the refusal names the template', () => {
    const contract = { required: true, template: aTemplate('r:{month}') }
    const long = decideKeys(contract, undefined, { month: 'x'.repeat(254) })
    assert.equal(shown(long), 'key_too_long')
    assert.ok(!long.ok && long.reason.endsWith('The contract makes the key from r:{month}.'))
    assert.equal(keys(contract, undefined, { month: '\u200b' }), 'key_characters')
  })
})
