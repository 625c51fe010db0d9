import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type CronFields, nextCronTime, parseCron } from '#kernel/cron'
import { dueTimes, nextDueTime } from './due-time.ts'

const BERLIN = 'Europe/Berlin'

function cron(text: string): CronFields {
  const fields = parseCron(text)
  assert.ok(fields.ok, text)
  return fields.value
}

function between(text: string, zone: string, from: string, to: string): string[] {
  return dueTimes(cron(text), zone, new Date(from), new Date(to)).map((due) => due.toISOString().slice(0, 16))
}

test('[SCD-05] half past two is due once on both nights on which the clocks change', () => {
  // Spring: 02:00 becomes 03:00 at 01:00 UTC on 29 March; there is no half past two, so it is due at the jump.
  assert.deepEqual(between('30 2 * * *', BERLIN, '2026-03-27T12:00Z', '2026-03-30T12:00Z'), [
    '2026-03-28T01:30',
    '2026-03-29T01:00',
    '2026-03-30T00:30',
  ])
  // Autumn: 03:00 becomes 02:00 at 01:00 UTC on 25 October; half past two comes twice and the first one counts.
  assert.deepEqual(between('30 2 * * *', BERLIN, '2026-10-23T12:00Z', '2026-10-26T12:00Z'), [
    '2026-10-24T00:30',
    '2026-10-25T00:30',
    '2026-10-26T01:30',
  ])
})

test('several times that the clocks jump over are due together, once', () => {
  assert.deepEqual(between('*/15 2 * * *', BERLIN, '2026-03-28T12:00Z', '2026-03-29T12:00Z'), ['2026-03-29T01:00'])
})

test('a text that names every hour goes by elapsed time: nothing is left out and nothing pauses', () => {
  const hours = (from: string, to: string) => between('0 * * * *', BERLIN, from, to)
  assert.deepEqual(hours('2026-10-24T22:30Z', '2026-10-25T03:30Z').length, 5)
  assert.deepEqual(hours('2026-03-28T22:30Z', '2026-03-29T03:30Z').length, 5)
  assert.deepEqual(between('*/30 * * * *', 'Australia/Lord_Howe', '2026-04-04T13:45Z', '2026-04-04T16:45Z'), [
    '2026-04-04T14:00',
    '2026-04-04T14:30',
    '2026-04-04T15:00',
    '2026-04-04T15:30',
    '2026-04-04T16:00',
    '2026-04-04T16:30',
  ])
})

test('zones with halves and quarters of an hour, and one that skipped a whole day', () => {
  assert.deepEqual(between('0 9 * * *', 'Asia/Kathmandu', '2026-01-01T00:00Z', '2026-01-02T00:00Z'), [
    '2026-01-01T03:15',
  ])
  // Samoa had no 30 December 2011: its due times fall on the first instant of the 31st.
  assert.deepEqual(between('0 9 * * *', 'Pacific/Apia', '2011-12-29T00:00Z', '2012-01-01T00:00Z'), [
    '2011-12-29T19:00',
    '2011-12-30T10:00',
    '2011-12-30T19:00',
    '2011-12-31T19:00',
  ])
})

test('the last of February and days that a month does not have', () => {
  assert.deepEqual(between('0 0 31 * *', 'UTC', '2026-03-30T00:00Z', '2026-04-02T00:00Z'), ['2026-03-31T00:00'])
  assert.equal(
    nextDueTime(cron('0 0 29 2 *'), BERLIN, new Date('2026-01-01T00:00Z'))?.toISOString(),
    '2028-02-28T23:00:00.000Z',
  )
})

const zones = fc.constantFrom('UTC', BERLIN, 'America/New_York', 'Asia/Kolkata', 'Pacific/Auckland', 'America/St_Johns')
const texts = fc.constantFrom(
  '* * * * *',
  '*/7 * * * *',
  '0 * * * *',
  '30 2 * * *',
  '15 1-3 * * *',
  '0 3 * * 0',
  '5 0 1 * *',
)
const moments = fc.date({ min: new Date('2020-01-01T00:00Z'), max: new Date('2030-01-01T00:00Z'), noInvalidDate: true })

test('a due time is strictly after the given instant, and no due time is skipped', () => {
  fc.assert(
    fc.property(zones, texts, moments, (zone, text, after) => {
      const due = nextDueTime(cron(text), zone, after)
      assert.ok(due !== undefined && due > after)
      // Every instant between the two gives the same answer.
      const middle = new Date(after.getTime() + Math.floor((due.getTime() - after.getTime()) / 2))
      if (middle < due) assert.deepEqual(nextDueTime(cron(text), zone, middle), due)
    }),
    { numRuns: 300 },
  )
})

test('in UTC the due time is what the calendar says', () => {
  fc.assert(
    fc.property(texts, moments, (text, after) => {
      assert.deepEqual(nextDueTime(cron(text), 'UTC', after), nextCronTime(cron(text), after))
    }),
  )
})

test('due times older than a week are not returned', () => {
  const found = dueTimes(cron('* * * * *'), 'UTC', new Date('2020-01-01T00:00Z'), new Date('2026-01-08T00:00Z'))
  assert.equal(found.length, 7 * 24 * 60)
  assert.equal(found[0]?.toISOString(), '2026-01-01T00:01:00.000Z')
})
