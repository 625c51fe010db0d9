/**
 * Parses times and calendar days from outside: RFC 3339, existing dates only, within the years that every
 * store can hold. JavaScript alone turns 2026-02-30 into 2 March, and Postgres reads `infinity` as a date.
 */
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'

declare const dayBrand: unique symbol
/** A calendar day without a zone, `2026-05-01`; sorts as text. */
export type CalendarDay = string & { readonly [dayBrand]: true }

/** Half-open: `after` is excluded, `until` is the last allowed time. */
export type InstantRange = { readonly after?: Date; readonly until?: Date }

// Years 1 to 9999: the range that RFC 3339, Postgres and the unsigned ISO form share.
const FIRST_MS = -62_135_596_800_000
const LAST_MS = 253_402_300_799_999

const DAY = /^(\d{4})-(\d{2})-(\d{2})$/
const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/
/** Forms of times that no calendar has: Postgres' special words, and years with a sign or at least five digits. */
const ENDLESS = /^[+-]?(?:infinity|\d{5,}-\d{2}-\d{2}.*)$/i

/** Parses `2026-05-01T10:00:00Z`. Truncates below a millisecond, so that no time moves into the future. */
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

/** Checks only the range, for times that did not arrive as text; also refuses an invalid Date. */
export function checkInstant(instant: Date, range: InstantRange = {}): Decision<Date> {
  const ms = instant.getTime()
  if (!(ms >= FIRST_MS && ms <= LAST_MS)) return outOfRange('the time', range)
  if (range.after && ms <= range.after.getTime()) return outOfRange(formatInstant(instant), range)
  if (range.until && ms > range.until.getTime()) return outOfRange(formatInstant(instant), range)
  return accept(instant)
}

/** Parses a calendar day, `2026-02-28`. */
export function parseCalendarDay(text: string): Decision<CalendarDay> {
  if (ENDLESS.test(text.slice(0, 64))) return outOfRange(quote(text), {})
  const ms = dayStartMs(text)
  if (ms === undefined) return badDate(text)
  // The only place that assigns the brand: the text is the canonical form of an existing day.
  return ms >= FIRST_MS ? accept(text as CalendarDay) : outOfRange(quote(text), {})
}

/** UTC with milliseconds, `2026-05-01T10:00:00.000Z`: the only form that Concord writes. */
export function formatInstant(instant: Date): string {
  return instant.toISOString()
}

function dayStartMs(text: string): number | undefined {
  const [, year, month, day] = DAY.exec(text) ?? []
  if (year === undefined) return undefined
  // setUTCFullYear instead of Date.UTC, which reads the years 0 to 99 as 1900 to 1999.
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  // A day or month that does not exist moves the date into another month.
  return date.getUTCMonth() === Number(month) - 1 ? date.getTime() : undefined
}

function badDate(text: string): Refusal {
  return refuse('date_invalid', `${quote(text)} is not an existing date and time.`, {
    hint: 'Send RFC 3339 with a zone, such as "2026-05-01T10:00:00Z", or a day such as "2026-05-01" where a day is expected.',
  })
}

function outOfRange(shown: string, range: InstantRange): Refusal {
  const after = range.after ? formatInstant(range.after) : undefined
  const until = range.until ? formatInstant(range.until) : undefined
  const bounds = [after && `after ${after}`, until && `until ${until}`].filter(Boolean).join(' and ')
  return refuse('time_range', `${shown} is not ${bounds || 'between the years 1 and 9999'}.`, {
    facts: { ...(after && { after }), ...(until && { until }) },
  })
}
