import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import type { JsonValue } from './json-value.ts'
import { agentKey, cronKey, parseKeyTemplate, renderKey, scheduleKey, webhookKey } from './idempotency-key.ts'

function render(template: string, payload: JsonValue): string {
  const parsed = parseKeyTemplate(template)
  assert.ok(parsed.ok)
  const key = renderKey(parsed.value, payload)
  return key.ok ? key.value : `${key.code} ${key.path}`
}

describe('key template', () => {
  for (const [template, payload, key] of [
    ['fixed', {}, 'fixed'],
    ['book_hotel:{booking_draft_id}', { booking_draft_id: 'd-7' }, 'book_hotel:d-7'],
    ['{a}:{b.c}', { a: 1, b: { c: true } }, '1:true'],
    ['{a}:{b}', { a: 'x:y%', b: 'z:%' }, 'x%3Ay%25:z:%'],
    ['{a}-end', { a: 'é-😀' }, 'é%2D😀-end'],
    ['{a}:{b}', { a: '0', b: 0 }, '0:0'],
    ['pay:{a}', { a: 12.5 }, 'pay:12.5'],
  ] as const) {
    test(`${template} gives ${key}`, () => assert.equal(render(template, payload), key))
  }

  for (const [payload, field] of [
    [{}, 'a.b'],
    [{ a: null }, 'a.b'],
    [{ a: { b: null } }, 'a.b'],
    [{ a: { b: '' } }, 'a.b'],
    [{ a: { b: 2 ** 53 } }, 'a.b'],
    [{ a: { b: [] } }, 'a.b'],
    [{ a: 'b' }, 'a.b'],
    [['a'], 'a.b'],
    ['text', 'a.b'],
  ] as const) {
    test(`${JSON.stringify(payload)} cannot fill {a.b}, and the answer names it`, () => {
      assert.equal(render('k:{a.b}', payload), `idempotency.field.missing ${field}`)
    })
  }

  test('what objects inherit is not a field', () => {
    assert.equal(render('{constructor.name}', {}), 'idempotency.field.missing constructor.name')
  })

  for (const template of [
    '',
    '{}',
    '{a',
    'a}',
    '{a}{b}',
    '{a b}',
    '{a..b}',
    '{.a}',
    '{1}',
    '{{a}}',
    '{a}}',
    '{a}%{b}',
    'x'.repeat(256),
  ]) {
    test(`refuses the template ${template.slice(0, 20) || 'without text'}`, () => {
      const parsed = parseKeyTemplate(template)
      assert.equal(!parsed.ok && parsed.code, 'idempotency.template.invalid')
    })
  }

  test('different parts never make the same key, whatever they contain', () => {
    const part = fc.string({ unit: fc.constantFrom(':', '%', '-', '3', 'A', 'a'), minLength: 1, maxLength: 5 })
    fc.assert(
      fc.property(
        fc.constantFrom('{a}:{b}', 'k-{a}-{b}', '{a}:%{b}', 'x{a}3A{b}'),
        part,
        part,
        part,
        part,
        (template, a, b, c, d) => {
          const same = render(template, { a, b }) === render(template, { a: c, b: d })
          assert.equal(same, a === c && b === d)
        },
      ),
      { numRuns: 2_000 },
    )
  })

  test('[CMD-06] webhooks, schedules, flow sources and agent steps have keys of one form each', () => {
    const due = new Date('2026-05-01T10:00:00Z')
    assert.equal(webhookKey('stripe', 'evt_1:2'), 'webhook:stripe:evt_1:2')
    assert.equal(scheduleKey('nightly', due), 'schedule:nightly:2026-05-01T10:00:00.000Z')
    assert.equal(cronKey('orders', due), 'cron:orders:2026-05-01T10:00:00.000Z')
    assert.equal(agentKey('017f22e2-79b0-7cc3-98c4-dc0c0c07398f', 3), 'agent:017f22e2-79b0-7cc3-98c4-dc0c0c07398f:3')
    assert.notEqual(webhookKey('a:b', 'c'), webhookKey('a', 'b:c'))
  })
})
