import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isCronDay, nextCronTime, parseCron } from './cron.ts'

function next(text: string, after: string): string | undefined {
  const fields = parseCron(text)
  assert.ok(fields.ok, text)
  return nextCronTime(fields.value, new Date(after))?.toISOString()
}

describe('next cron time', () => {
  for (const [text, after, due] of [
    ['* * * * *', '2026-05-01T10:00:00Z', '2026-05-01T10:01:00.000Z'],
    ['* * * * *', '2026-05-01T10:00:59.999Z', '2026-05-01T10:01:00.000Z'],
    ['*/5 * * * *', '2026-05-01T10:55:00Z', '2026-05-01T11:00:00.000Z'],
    ['0 3 * * *', '2026-12-31T03:00:00Z', '2027-01-01T03:00:00.000Z'],
    ['0 20 1,31 * *', '2026-02-25T10:00:00Z', '2026-03-01T20:00:00.000Z'],
    ['0 20 */5 * *', '2026-02-27T00:00:00Z', '2026-03-01T20:00:00.000Z'],
    ['0 0 31 * *', '2026-03-31T00:00:00Z', '2026-05-31T00:00:00.000Z'],
    ['0 0 29 2 *', '2026-01-01T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    ['0 0 13 * FRI', '2026-05-01T00:00:00Z', '2026-05-08T00:00:00.000Z'],
    ['0 0 13 * FRI', '2026-05-12T00:00:00Z', '2026-05-13T00:00:00.000Z'],
    ['30 9 * * MON-FRI', '2026-05-01T09:30:00Z', '2026-05-04T09:30:00.000Z'],
  ] as const) {
    test(`${text} after ${after} is ${due}`, () => assert.equal(next(text, after), due))
  }

  test('29 February is not within five years of 2096, since 2100 has none', () => {
    assert.equal(next('0 0 29 2 *', '2096-03-01T00:00:00Z'), undefined)
    assert.equal(next('0 0 29 2 *', '2095-03-01T00:00:00Z'), '2096-02-29T00:00:00.000Z')
  })

  test('is the first minute that fits: no minute in between does', () => {
    const items = (max: number) =>
      fc.constantFrom('*', `*/${Math.max(2, max >> 2)}`, `${max >> 1}-${max}`, `${max}`, `${max >> 1}`)
    const days = fc.constantFrom('*', '1', '31', '1,30', '29,31', '*/5')
    fc.assert(
      fc.property(
        items(59),
        items(23),
        days,
        fc.constantFrom('*', '2', 'FEB-APR'),
        fc.constantFrom('*', 'SUN', '1-5'),
        fc.integer({ min: 0, max: 730 * 1440 }),
        (minute, hour, day, month, weekday, offset) => {
          const fields = parseCron(`${minute} ${hour} ${day} ${month} ${weekday}`)
          if (!fields.ok) return
          const after = Date.UTC(2026, 0, 1) + offset * 60_000
          const due = nextCronTime(fields.value, new Date(after))?.getTime()
          const horizon = Math.min(due ?? Number.POSITIVE_INFINITY, after + 40 * 86_400_000)
          for (let at = after + 60_000; at < horizon; at += 60_000) {
            const time = new Date(at)
            const fits =
              fields.value.minutes.includes(time.getUTCMinutes()) && fields.value.hours.includes(time.getUTCHours())
            assert.ok(!(fits && isCronDay(fields.value, time)), `${time.toISOString()} was passed over`)
          }
          if (due !== undefined) {
            const time = new Date(due)
            assert.ok(
              isCronDay(fields.value, time) &&
                fields.value.minutes.includes(time.getUTCMinutes()) &&
                fields.value.hours.includes(time.getUTCHours()),
            )
          }
        },
      ),
      { numRuns: 60 },
    )
  })
})
