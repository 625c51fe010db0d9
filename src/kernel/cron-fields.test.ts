import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type CronFields, parseCron } from './cron.ts'

function fieldsOf(text: string): CronFields {
  const decision = parseCron(text)
  assert.ok(decision.ok, decision.ok ? '' : decision.reason)
  return decision.value
}
const range = (from: number, to: number, step = 1) =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, at) => from + at * step)

describe('cron', () => {
  test('reads every kind of item in every field', () => {
    assert.deepEqual(fieldsOf('*/15 8-18/2 1,15,31 JAN-mar,12 Mon-FRI'), {
      minutes: [0, 15, 30, 45],
      hours: [8, 10, 12, 14, 16, 18],
      daysOfMonth: [1, 15, 31],
      months: [1, 2, 3, 12],
      daysOfWeek: [1, 2, 3, 4, 5],
      anyDayOfMonth: false,
      anyDayOfWeek: false,
    })
    assert.deepEqual(fieldsOf('* * * * *'), {
      minutes: range(0, 59),
      hours: range(0, 23),
      daysOfMonth: range(1, 31),
      months: range(1, 12),
      daysOfWeek: range(0, 6),
      anyDayOfMonth: true,
      anyDayOfWeek: true,
    })
  })

  for (const [weekday, days] of [
    ['7', [0]],
    ['0,7', [0]],
    ['5-7', [0, 5, 6]],
    ['SAT-SUN', [0, 6]],
    ['SUN-TUE', [0, 1, 2]],
    ['SUN', [0]],
    ['SUN-SUN', [0, 1, 2, 3, 4, 5, 6]],
    ['0-7', [0, 1, 2, 3, 4, 5, 6]],
    ['*/2', [0, 2, 4, 6]],
    ['*/7', [0]],
    ['1-7/3', [0, 1, 4]],
  ] as const) {
    test(`the weekdays of ${weekday}`, () => assert.deepEqual(fieldsOf(`0 0 * * ${weekday}`).daysOfWeek, days))
  }

  test('spaces and tabs between and around the fields do not matter, leading zeros neither', () => {
    assert.deepEqual(fieldsOf(' 05\t03  * *   * '), fieldsOf('5 3 * * *'))
  })

  for (const text of ['', '* * * *', '* * * * * *', '0 0 1 1 * 2026 *', '@daily', '*']) {
    test(`refuses the number of fields of ${JSON.stringify(text)}`, () => {
      const decision = parseCron(text)
      assert.equal(!decision.ok && decision.code, 'cron_fields')
      assert.ok(!decision.ok && decision.reason.includes('five'))
    })
  }

  for (const [text, field] of [
    ['61 * * * *', 'minute'],
    ['60 * * * *', 'minute'],
    ['-1 * * * *', 'minute'],
    ['*/0 * * * *', 'minute'],
    ['*/60 * * * *', 'minute'],
    ['*/ * * * *', 'minute'],
    ['5-1 * * * *', 'minute'],
    ['5- * * * *', 'minute'],
    ['1-2-3 * * * *', 'minute'],
    ['1-9/2/2 * * * *', 'minute'],
    ['5/10 * * * *', 'minute'],
    ['1,,2 * * * *', 'minute'],
    [', * * * *', 'minute'],
    ['1.5 * * * *', 'minute'],
    ['0x5 * * * *', 'minute'],
    ['٣ * * * *', 'minute'],
    ['*-5 * * * *', 'minute'],
    ['** * * * *', 'minute'],
    ['MON * * * *', 'minute'],
    ['* 24 * * *', 'hour'],
    ['* * 0 * *', 'day of month'],
    ['* * 32 * *', 'day of month'],
    ['* * L * *', 'day of month'],
    ['* * 15W * *', 'day of month'],
    ['* * ? * *', 'day of month'],
    ['* * * 0 *', 'month'],
    ['* * * 13 *', 'month'],
    ['* * * january *', 'month'],
    ['* * * DEC-FEB *', 'month'],
    ['* * * * 8', 'day of week'],
    ['* * * * MON#6', 'day of week'],
    ['* * * * FRI-MON', 'day of week'],
    ['* * * * MONDAY', 'day of week'],
    ['* * * * jan', 'day of week'],
  ] as const) {
    test(`refuses ${text} and names ${field}`, () => {
      const decision = parseCron(text)
      assert.deepEqual(!decision.ok && [decision.code, decision.path], ['cron_value', field])
      assert.ok(!decision.ok && / \d+ to \d+/.test(decision.reason), 'the range is named')
    })
  }

  test('a day that no month has never fires; 29 February does, and so does any limited weekday', () => {
    for (const text of ['0 0 30 2 *', '0 0 31 2 *', '0 0 31 4,6,9,11 *', '0 0 30-31 FEB *', '* * 31 2-2 *']) {
      const decision = parseCron(text)
      assert.equal(!decision.ok && decision.code, 'cron_never', text)
    }
    for (const text of ['0 0 29 2 *', '0 0 31 4,5 *', '0 0 1,30 2 *', '0 0 30 2 MON', '0 0 30 * *']) {
      assert.ok(parseCron(text).ok, text)
    }
  })

  test('a text made of values is read as exactly those values', () => {
    const list = (min: number, max: number) => fc.uniqueArray(fc.integer({ min, max }), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(list(0, 59), list(0, 23), list(1, 28), list(1, 12), list(0, 6), (...lists) => {
        const fields = fieldsOf(lists.map((values) => values.join(',')).join(' '))
        const read = [fields.minutes, fields.hours, fields.daysOfMonth, fields.months, fields.daysOfWeek]
        assert.deepEqual(
          read,
          lists.map((values) => values.toSorted((left, right) => left - right)),
        )
      }),
    )
  })

  test('no text throws', () => {
    const piece = fc.constantFrom('*', '/', '-', ',', ' ', '5', '0', '99', 'MON', 'jan', 'L', '#', '?', '\u0000', '😀')
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => void parseCron(pieces.join(''))),
      { numRuns: 1_000 },
    )
  })
})
