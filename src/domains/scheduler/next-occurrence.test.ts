/** Due times in zones with and without daylight saving, compared with a minute-by-minute clock and with a library. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Cron } from 'croner'
import fc from 'fast-check'
import { isCronDay, parseCron } from '#kernel/cron'
import { codeOf, must } from '#test/scheduler/fixture'
import {
  firstMomentOf,
  listRecentDueTimes,
  nextOccurrence,
  nextOccurrences,
  offsetAt,
  wallOf,
} from './next-occurrence.ts'

const due = (cron: string, zone: string, after: string, count: number) =>
  must(nextOccurrences(cron, zone, new Date(after), count)).map((time) => time.toISOString().slice(0, 16))
const fieldsOf = (cron: string) => must(parseCron(cron))

describe('the nights when clocks change', () => {
  for (const [cron, zone, after, expected] of [
    [
      '30 2 * * *',
      'Europe/Berlin',
      '2026-03-28T00:00:00Z',
      ['2026-03-28T01:30', '2026-03-29T01:00', '2026-03-30T00:30'],
    ],
    ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', ['2026-10-25T00:30', '2026-10-26T01:30']],
    ['0 3 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', ['2026-03-29T01:00', '2026-03-30T01:00']],
    ['30 2 * * *', 'America/New_York', '2026-03-07T12:00:00Z', ['2026-03-08T07:00', '2026-03-09T06:30']],
    ['30 1 * * *', 'America/New_York', '2026-10-31T12:00:00Z', ['2026-11-01T05:30', '2026-11-02T06:30']],
    ['15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00:00Z', ['2026-10-03T15:30', '2026-10-04T15:15']],
    ['45 1 * * *', 'Australia/Lord_Howe', '2027-04-03T00:00:00Z', ['2027-04-03T14:45', '2027-04-04T15:15']],
    ['0 0 * * *', 'America/Asuncion', '2023-09-30T12:00:00Z', ['2023-10-01T04:00', '2023-10-02T03:00']],
    [
      '0 12 * * *',
      'Pacific/Apia',
      '2011-12-28T12:00:00Z',
      ['2011-12-28T22:00', '2011-12-29T22:00', '2011-12-30T10:00', '2011-12-30T22:00'],
    ],
  ] as const) {
    test(`[SCH-050] ${cron} in ${zone} after ${after}: a time of day is due once on each night`, () => {
      assert.deepEqual(due(cron, zone, after, expected.length), expected)
    })
  }

  test('[SCH-050] four times in the skipped hour are due once, at the change', () => {
    assert.deepEqual(due('*/15 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', 2), [
      '2026-03-29T01:00',
      '2026-03-30T00:00',
    ])
  })

  test('[SCH-050] four times in the repeated hour are due in its first occurrence', () => {
    const expected = ['00:00', '00:15', '00:30', '00:45'].map((time) => `2026-10-25T${time}`)
    assert.deepEqual(due('*/15 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', 5), [...expected, '2026-10-26T01:00'])
  })

  test('[SCH-050] in the second occurrence of the hour nothing is due again', () => {
    assert.deepEqual(due('*/15 2 * * *', 'Europe/Berlin', '2026-10-25T01:20:00Z', 1), ['2026-10-26T01:00'])
  })

  test('[SCH-050] a schedule of every hour continues evenly through both nights', () => {
    assert.deepEqual(due('30 * * * *', 'Europe/Berlin', '2026-03-28T23:00:00Z', 4), [
      '2026-03-28T23:30',
      '2026-03-29T00:30',
      '2026-03-29T01:30',
      '2026-03-29T02:30',
    ])
    assert.deepEqual(due('0 * * * *', 'Europe/Berlin', '2026-10-24T22:30:00Z', 5), [
      '2026-10-24T23:00',
      '2026-10-25T00:00',
      '2026-10-25T01:00',
      '2026-10-25T02:00',
      '2026-10-25T03:00',
    ])
    assert.deepEqual(due('*/30 * * * *', 'Australia/Lord_Howe', '2026-10-03T15:00:00Z', 3), [
      '2026-10-03T15:30',
      '2026-10-03T16:00',
      '2026-10-03T16:30',
    ])
  })
})

describe('refused expressions', () => {
  for (const [cron, zone, code] of [
    ['* * * *', 'UTC', 'cron_fields'],
    ['0 * * * * *', 'UTC', 'cron_fields'],
    ['61 * * * *', 'UTC', 'cron_value'],
    ['0 0 30 2 *', 'UTC', 'cron_never'],
    ['0 3 * * *', 'Mars/Base', 'timezone_unknown'],
    ['0 3 * * *', 'EST5EDT+', 'timezone_unknown'],
  ] as const) {
    test(`[SCH-049] ${cron} in ${zone} is ${code}`, () =>
      assert.equal(codeOf(nextOccurrences(cron, zone, new Date(0))), code))
  }

  test('[SCH-049] a due time more than five years away is refused', () => {
    assert.equal(codeOf(nextOccurrences('0 0 29 2 *', 'UTC', new Date('2096-03-01T00:00:00Z'))), 'cron_never')
    assert.deepEqual(due('0 0 29 2 *', 'UTC', '2095-03-01T00:00:00Z', 3), ['2096-02-29T00:00'])
    assert.deepEqual(due('0 0 29 2 *', 'Europe/Berlin', '2026-03-01T00:00:00Z', 1), ['2028-02-28T23:00'])
  })
})

test('ten due times by default, in increasing order', () => {
  const times = must(nextOccurrences('0 20 1,31 * *', 'UTC', new Date('2026-02-25T00:00:00Z')))
  assert.equal(times.length, 10)
  assert.deepEqual(
    times.slice(0, 3).map((time) => time.toISOString().slice(0, 10)),
    ['2026-03-01', '2026-03-31', '2026-04-01'],
  )
})

const zones = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'Asia/Kolkata',
  'America/St_Johns',
  'Pacific/Chatham',
  'Africa/Casablanca',
]
const aCron = fc
  .tuple(
    fc.constantFrom('0', '30', '*/15', '5,50'),
    fc.constantFrom('*', '2', '1-3', '0', '*/6', '23'),
    fc.constantFrom('*', '1', '29,31'),
    fc.constantFrom('*', '3,10', '11'),
    fc.constantFrom('*', 'SUN', '1-5'),
  )
  .map((parts) => parts.join(' '))
const aMoment = fc
  .integer({ min: Date.UTC(2025, 0, 1) / 60_000, max: Date.UTC(2028, 0, 1) / 60_000 })
  .map((minutes) => new Date(minutes * 60_000))

describe('properties', () => {
  test('[SCH-050] a minute-by-minute search finds the same due time', () => {
    fc.assert(
      fc.property(aCron, fc.constantFrom(...zones), aMoment, (cron, zone, after) => {
        const fields = fieldsOf(cron)
        const next = nextOccurrence(fields, zone, after)
        const horizon = Math.min(next?.getTime() ?? Number.POSITIVE_INFINITY, after.getTime() + 3 * 86_400_000)
        const isEven = fields.hours.length === 24
        const fits = (wall: Date) =>
          fields.minutes.includes(wall.getUTCMinutes()) &&
          fields.hours.includes(wall.getUTCHours()) &&
          isCronDay(fields, wall)
        let highest = wallOf(zone, after.getTime() - 36 * 3_600_000).getTime()
        // The highest local time so far: a time of day is due when it is reached or passed.
        for (let at = after.getTime() - 36 * 3_600_000 + 60_000; at <= horizon; at += 60_000) {
          const wall = wallOf(zone, at).getTime()
          let isDue = isEven && fits(new Date(wall))
          for (let mark = highest + 60_000; mark <= wall; mark += 60_000)
            if (!isEven && fits(new Date(mark))) isDue = true
          highest = Math.max(highest, wall)
          if (at > after.getTime() && at < horizon)
            assert.equal(isDue, false, `${cron} ${zone}: ${new Date(at).toISOString()} was passed over`)
          if (at === next?.getTime()) assert.equal(isDue, true, `${cron} ${zone}: ${next.toISOString()} is not due`)
        }
      }),
      { numRuns: 60 },
    )
  })

  test('wall time and instant are inverse away from the changes, and the first moment is never before the given local time', () => {
    fc.assert(
      fc.property(fc.constantFrom(...zones), aMoment, (zone, moment) => {
        const wall = wallOf(zone, moment.getTime())
        const first = firstMomentOf(zone, wall)
        assert.ok(first <= moment.getTime())
        assert.ok(wallOf(zone, first).getTime() >= wall.getTime())
        assert.ok(wallOf(zone, first - 1_000).getTime() < wall.getTime())
        if (offsetAt(zone, first) === offsetAt(zone, moment.getTime())) assert.equal(first, moment.getTime())
      }),
      { numRuns: 2_000 },
    )
  })

  test('the library agrees where it is right: away from the changes and from the ends of months', () => {
    const plain = fc
      .tuple(
        fc.constantFrom('0', '30', '*/15', '5,50'),
        fc.constantFrom('*', '5-20', '12', '6,18'),
        fc.constant('*'),
        fc.constantFrom('*', '3,10'),
        fc.constantFrom('*', 'SUN', '1-5'),
      )
      .map((parts) => parts.join(' '))
    fc.assert(
      fc.property(
        plain,
        fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata'),
        aMoment,
        (cron, zone, after) => {
          const theirs = new Cron(cron, { timezone: zone }).nextRun(after)
          assert.equal(nextOccurrence(fieldsOf(cron), zone, after)?.toISOString(), theirs?.toISOString())
        },
      ),
      { numRuns: 300 },
    )
  })
})

describe('due times after downtime', () => {
  test('returns all of a few due times, and the newest of many', () => {
    const fields = fieldsOf('0 * * * *')
    const first = new Date('2026-05-01T00:00:00Z')
    const few = listRecentDueTimes(fields, 'UTC', first, new Date('2026-05-01T05:30:00Z'), 100)
    assert.deepEqual([few.times.length, few.hasOlder], [6, false])
    const many = listRecentDueTimes(fieldsOf('* * * * *'), 'UTC', first, new Date('2028-05-01T00:00:00Z'), 100)
    assert.ok(many.times.length >= 100 && many.times.length < 1_000)
    assert.deepEqual([many.times.at(-1)?.toISOString(), many.hasOlder], ['2028-05-01T00:00:00.000Z', true])
  })
})
