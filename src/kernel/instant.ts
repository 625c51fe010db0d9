/**
 * Points in time and calendar days that come from outside: RFC 3339, really existing, inside the years that every
 * store can hold. JavaScript alone turns 2026-02-30 into 2 March, and Postgres reads `infinity` as a date.
 */
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'

declare const dayBrand: unique symbol
/** A calendar day without a zone, `2026-05-01`; sorts as text. */
export type CalendarDay = string & { readonly [dayBrand]: true }

/** Half-open: `after` is excluded, `until` is the last allowed moment. */
export type InstantRange = { readonly after?: Date; readonly until?: Date }

// Year 1 to 9999: the common ground of RFC 3339, Postgres and the ISO form without a sign.
const FIRST_MS = -62_135_596_800_000
const LAST_MS = 253_402_300_799_999

const DAY = /^(\d{4})-(\d{2})-(\d{2})$/
const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/
/** Forms that mean a time which no calendar has: the words of Postgres and years with a sign or five and more digits. */
const ENDLESS = /^[+-]?(?:infinity|\d{5,}-\d{2}-\d{2}.*)$/i

/** Reads `2026-05-01T10:00:00Z`. Digits below a millisecond are cut off, so that no time moves into the future. */
export function parseInstant(text: string, range: InstantRange = {}): Decision<Date> {
  if (text.length > 64) return badDate(text)
  if (ENDLESS.test(text)) return outOfRange(quote(text), range)
  const [, date = '', hour, minute, second, fraction = '', sign, zoneHour = '0', zoneMinute = '0'] =
    INSTANT.exec(text) ?? []
  const midnightMs = dayStartMs(date)
  if (midnightMs === undefined) return badDate(text)
  const [h, m, s, zh, zm] = [Number(hour), Number(minute), Number(second), Number(zoneHour), Number(zoneMinute)]
  if (h > 23 || m > 59 || s > 59 || zh > 23 || zm > 59) return badDate(text)
  const millis = Number(fraction.slice(0, 3).padEnd(3, '0'))
  const offsetMs = (sign === '-' ? -1 : 1) * (zh * 60 + zm) * 60_000
  return checkInstant(new Date(midnightMs + ((h * 60 + m) * 60 + s) * 1_000 + millis - offsetMs), range)
}

/** The range alone, for times that did not come as text; an invalid Date is refused too. */
export function checkInstant(instant: Date, range: InstantRange = {}): Decision<Date> {
  const ms = instant.getTime()
  if (!(ms >= FIRST_MS && ms <= LAST_MS)) return outOfRange('the time', range)
  if (range.after && ms <= range.after.getTime()) return outOfRange(formatInstant(instant), range)
  if (range.until && ms > range.until.getTime()) return outOfRange(formatInstant(instant), range)
  return accept(instant)
}

/** Reads a day of the calendar, `2026-02-28`. */
export function parseCalendarDay(text: string): Decision<CalendarDay> {
  if (ENDLESS.test(text.slice(0, 64))) return outOfRange(quote(text), {})
  const ms = dayStartMs(text)
  if (ms === undefined) return badDate(text)
  // The one place where the brand is given: the text is the canonical form of an existing day.
  return ms >= FIRST_MS ? accept(text as CalendarDay) : outOfRange(quote(text), {})
}

/** UTC with milliseconds, `2026-05-01T10:00:00.000Z`: the one form that Concord writes. */
export function formatInstant(instant: Date): string {
  return instant.toISOString()
}

function dayStartMs(text: string): number | undefined {
  const [, year, month, day] = DAY.exec(text) ?? []
  if (year === undefined) return undefined
  // setUTCFullYear instead of Date.UTC, which takes the years 0 to 99 for 1900 to 1999.
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  // A day or month that does not exist has moved the date into another month.
  return date.getUTCMonth() === Number(month) - 1 ? date.getTime() : undefined
}

function badDate(text: string): Refusal {
  return refuse('date_invalid', `${quote(text)} is not an existing date and time`, {
    hint: 'Send RFC 3339 with a zone, such as "2026-05-01T10:00:00Z", or a day such as "2026-05-01" where a day is asked for.',
  })
}

function outOfRange(shown: string, range: InstantRange): Refusal {
  const after = range.after ? formatInstant(range.after) : undefined
  const until = range.until ? formatInstant(range.until) : undefined
  const bounds = [after && `after ${after}`, until && `until ${until}`].filter(Boolean).join(' and ')
  return refuse('time_range', `${shown} is not ${bounds || 'between the years 1 and 9999'}`, {
    facts: { ...(after && { after }), ...(until && { until }) },
  })
}
