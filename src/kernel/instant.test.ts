import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { checkInstant, formatInstant, parseCalendarDay, parseInstant } from './instant.ts'
import type { Decision } from './refusal.ts'

const codeOf = (decision: Decision<unknown>) => (decision.ok ? 'accepted' : decision.code)
const isoOf = (decision: Decision<Date>) => (decision.ok ? decision.value.toISOString() : decision.code)

describe('instant', () => {
  for (const [text, iso] of [
    ['2026-05-01T10:00:00Z', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01t10:00:00z', '2026-05-01T10:00:00.000Z'],
    ['2026-05-01T10:00:00.5+02:00', '2026-05-01T08:00:00.500Z'],
    ['2026-05-01T10:00:00.123999-05:30', '2026-05-01T15:30:00.123Z'],
    ['2024-02-29T23:59:59-00:00', '2024-02-29T23:59:59.000Z'],
    ['0099-12-31T00:00:00Z', '0099-12-31T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
  ] as const) {
    test(`reads ${text}`, () => assert.equal(isoOf(parseInstant(text)), iso))
  }

  for (const text of [
    '',
    'now',
    '2026-02-30T00:00:00Z',
    '2026-02-30',
    '2025-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-10T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-05-01',
    '2026-05-01T10:00:00',
    '2026-05-01 10:00:00Z',
    '2026-05-01T24:00:00Z',
    '2026-05-01T10:60:00Z',
    '2026-05-01T23:59:60Z',
    '2026-05-01T10:00:00+24:00',
    '2026-05-01T10:00:00+0200',
    '2026-5-1T10:00:00Z',
    '1777629600',
    `2026-05-01T10:00:00.${'0'.repeat(1_000_000)}Z`,
  ]) {
    test(`refuses ${text.slice(0, 40) || 'the empty text'}`, () =>
      assert.equal(codeOf(parseInstant(text)), 'date_invalid'))
  }

  for (const text of [
    'infinity',
    '-infinity',
    'Infinity',
    '300000-01-01T00:00:00Z',
    '+300000-01-01T00:00:00Z',
    '0000-01-01T00:00:00Z',
    '9999-12-31T23:59:59-00:01',
    '0001-01-01T00:00:00+00:01',
  ]) {
    test(`refuses the range of ${text}`, () => assert.equal(codeOf(parseInstant(text)), 'time_range'))
  }

  test('future only: the caller says after what and until when', () => {
    const now = new Date('2026-05-01T10:00:00Z')
    const range = { after: now, until: new Date('2027-05-01T10:00:00Z') }
    assert.equal(codeOf(parseInstant('2026-05-01T09:59:59.999Z', range)), 'time_range')
    assert.equal(codeOf(parseInstant('2026-05-01T10:00:00Z', range)), 'time_range')
    assert.equal(codeOf(parseInstant('2026-05-01T10:00:00.001Z', range)), 'accepted')
    assert.equal(codeOf(parseInstant('2027-05-01T10:00:00Z', range)), 'accepted')
    const late = parseInstant('2027-05-01T10:00:00.001Z', range)
    assert.ok(!late.ok && late.reason.includes('until 2027-05-01T10:00:00.000Z'))
    assert.equal(codeOf(checkInstant(new Date(Number.NaN))), 'time_range')
  })

  test('every time that is written is read back the same', () => {
    const years = {
      min: new Date('0001-01-01T00:00:00Z'),
      max: new Date('9999-12-31T23:59:59.999Z'),
      noInvalidDate: true,
    }
    fc.assert(
      fc.property(fc.date(years), (time) => {
        assert.equal(isoOf(parseInstant(formatInstant(time))), time.toISOString())
        const day = time.toISOString().slice(0, 10)
        assert.deepEqual(parseCalendarDay(day), { ok: true, value: day })
      }),
    )
  })

  test('of all month and day numbers only the days of the calendar are days', () => {
    const month = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    for (let m = 0; m <= 13; m++) {
      for (let d = 0; d <= 32; d++) {
        const text = `2026-${String(m).padStart(2, '0')}-${String(d).padStart(2, '0')}`
        const exists = d >= 1 && d <= (month[m - 1] ?? 0)
        assert.equal(codeOf(parseCalendarDay(text)), exists ? 'accepted' : 'date_invalid', text)
      }
    }
    assert.equal(codeOf(parseCalendarDay('0000-01-01')), 'time_range')
    assert.equal(codeOf(parseCalendarDay('12026-01-01')), 'time_range')
    assert.equal(codeOf(parseCalendarDay('2026-01-01T00:00:00Z')), 'date_invalid')
  })
})
