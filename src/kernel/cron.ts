/** Five-field cron expressions, the next time that they name, and time zones by name. */
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'

/** Sorted values of each field; Sunday is 0. When both day fields are limited, a match of either is enough. */
export type CronFields = {
  readonly minutes: readonly number[]
  readonly hours: readonly number[]
  readonly daysOfMonth: readonly number[]
  readonly months: readonly number[]
  readonly daysOfWeek: readonly number[]
  readonly anyDayOfMonth: boolean
  readonly anyDayOfWeek: boolean
}

type Field = { readonly name: string; readonly min: number; readonly max: number; readonly names?: readonly string[] }

const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const weekdayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']

const minute: Field = { name: 'minute', min: 0, max: 59 }
const hour: Field = { name: 'hour', min: 0, max: 23 }
const dayOfMonth: Field = { name: 'day of month', min: 1, max: 31 }
const month: Field = { name: 'month', min: 1, max: 12, names: monthNames }
/** 7 is also Sunday, so that 5-7 and SAT-SUN are ranges. */
const dayOfWeek: Field = { name: 'day of week', min: 0, max: 7, names: weekdayNames }

/** Every value of every field, written out, takes 400. */
export const CRON_CHARS_MAX = 500

/** What the parser accepts, for documents. That a range ends after it begins, and that a day exists, only the parser says. */
export const cronForm = `^[ \\t]*${[minute, hour, dayOfMonth, month, dayOfWeek].map(fieldForm).join('[ \\t]+')}[ \\t]*$`

function fieldForm({ min, max, names = [] }: Field): string {
  const anyCase = (name: string) => Array.from(name, (char) => `[${char.toUpperCase()}${char}]`).join('')
  const value = `(?:${[numbersForm(min, max), ...names.map(anyCase)].join('|')})`
  const step = `(?:/(?:${numbersForm(1, max)}))?`
  const item = `(?:\\*${step}|${value}(?:-${value}${step})?)`
  return `${item}(?:,${item})*`
}

/** The numbers from `min` (0 or 1) to `max`, with one or two digits. */
function numbersForm(min: number, max: number): string {
  const tens = Math.floor(max / 10)
  const below = Array.from({ length: Math.max(0, tens - 1) }, (_, at) => at + 1).join('')
  return [
    `0?[${min}-${Math.min(9, max)}]`,
    ...(below === '' ? [] : [`[${below}][0-9]`]),
    ...(tens === 0 ? [] : [`${tens}[0-${max % 10}]`]),
  ].join('|')
}

/**
 * Parses minute, hour, day of month, month and day of week. Accepts numbers, ranges, steps, lists and the English names of months
 * and weekdays, and nothing else, so that an expression means the same to every reader. Refuses with `cron_fields`, `cron_value`,
 * or `cron_never` for a day that none of the named months has.
 */
export function parseCron(text: string): Decision<CronFields> {
  if (text.length > CRON_CHARS_MAX)
    return refuse('cron_value', `A cron expression has at most ${CRON_CHARS_MAX} characters.`, {
      hint: 'Use ranges and steps, such as 0-30/5, instead of long lists.',
      facts: { maximum: CRON_CHARS_MAX },
    })
  const words = text.split(/[ \t]+/).filter((word) => word !== '')
  const [minuteText, hourText, dayText, monthText, weekdayText] = words
  if (words.length !== 5 || !minuteText || !hourText || !dayText || !monthText || !weekdayText) {
    return refuse('cron_fields', `${quote(text)} has ${words.length} fields; cron has five.`, {
      hint: 'Write minute, hour, day of month, month and day of week, such as "*/5 * * * *".',
      facts: { fields: words.length },
    })
  }
  const minutes = parseField(minute, minuteText)
  if (!minutes.ok) return minutes
  const hours = parseField(hour, hourText)
  if (!hours.ok) return hours
  const daysOfMonth = parseField(dayOfMonth, dayText)
  if (!daysOfMonth.ok) return daysOfMonth
  const months = parseField(month, monthText)
  if (!months.ok) return months
  const daysOfWeek = parseField(dayOfWeek, weekdayText)
  if (!daysOfWeek.ok) return daysOfWeek
  const fields: CronFields = {
    minutes: minutes.value,
    hours: hours.value,
    daysOfMonth: daysOfMonth.value,
    months: months.value,
    daysOfWeek: [...new Set(daysOfWeek.value.map((day) => day % 7))].toSorted((left, right) => left - right),
    anyDayOfMonth: dayText === '*',
    anyDayOfWeek: weekdayText === '*',
  }
  if (!isImpossibleDate(fields)) return accept(fields)
  return refuse('cron_never', `${quote(text)} never fires: no month it names has such a day.`)
}

/** True for `0 0 30 2 *`. A limited weekday makes every expression possible, since a match of either day field is enough. */
export function isImpossibleDate(fields: CronFields): boolean {
  if (!fields.anyDayOfWeek) return false
  const longestMonth = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const
  const firstDay = Math.min(...fields.daysOfMonth)
  return fields.months.every((number) => firstDay > (longestMonth[number - 1] ?? 0))
}

function parseField(field: Field, text: string): Decision<readonly number[]> {
  const values = new Set<number>()
  for (const item of text.split(',')) {
    const range = parseItem(field, item)
    if (!range) return badValue(field, item)
    for (let value = range.from; value <= range.to; value += range.step) values.add(value)
  }
  return accept([...values].toSorted((left, right) => left - right))
}

/** Reads `*`, `5`, `1-5`, and a step after a star or a range; a step after a single number means different things elsewhere. */
function parseItem(field: Field, item: string): { from: number; to: number; step: number } | undefined {
  const [rangeText = '', stepText, ...more] = item.split('/')
  const [fromText = '', toText, ...evenMore] = rangeText.split('-')
  if (more.length > 0 || evenMore.length > 0) return undefined
  const step = stepText === undefined ? 1 : parseNumber(stepText)
  const from = rangeText === '*' ? field.min : parseValue(field, fromText)
  const to = rangeText === '*' ? field.max : toText === undefined ? from : parseEnd(field, toText)
  if (from === undefined || to === undefined || step === undefined) return undefined
  if (stepText !== undefined && rangeText !== '*' && toText === undefined) return undefined
  return from > to || step < 1 || step > field.max ? undefined : { from, to, step }
}

/** SUN at the end of a range is 7, as in the library that the tests compare with. */
function parseEnd(field: Field, text: string): number | undefined {
  return field === dayOfWeek && text.toLowerCase() === 'sun' ? 7 : parseValue(field, text)
}

/** A number of the field, or one of its names. */
function parseValue(field: Field, text: string): number | undefined {
  const nameAt = field.names?.indexOf(text.toLowerCase()) ?? -1
  if (nameAt !== -1) return nameAt + field.min
  const value = parseNumber(text)
  return value !== undefined && value >= field.min && value <= field.max ? value : undefined
}

function parseNumber(text: string): number | undefined {
  return /^\d{1,2}$/.test(text) ? Number(text) : undefined
}

function badValue(field: Field, item: string): Refusal {
  const names = field.names ? ` or ${field.names[0]?.toUpperCase()}–${field.names.at(-1)?.toUpperCase()}` : ''
  return refuse('cron_value', `${quote(item)} is not a ${field.name}: ${field.min} to ${field.max}${names}.`, {
    path: field.name,
    hint: 'Use numbers, ranges 1-5, steps */5 or 1-9/2, and lists 1,3,5.',
    facts: { field: field.name, min: field.min, max: field.max },
  })
}

/** A schedule whose next time is further away is refused: it is far more often a mistake than intended. */
export const CRON_YEARS_AHEAD = 5

/**
 * Returns the next time that the expression names on the calendar of one wall clock: strictly after `after`, at most five years
 * away, undefined when there is none. Both dates are read by their UTC fields. For UTC that is the due time; for another zone the
 * caller converts wall time to an instant.
 */
export function nextCronTime(fields: CronFields, after: Date): Date | undefined {
  const day = new Date(Date.UTC(after.getUTCFullYear(), after.getUTCMonth(), after.getUTCDate()))
  const lastDay = new Date(day)
  lastDay.setUTCFullYear(day.getUTCFullYear() + CRON_YEARS_AHEAD)
  let isFirstDay = true
  // Day by day, at most 1,827 steps: adding days cannot skip the end of a month, as counting with 31 would.
  for (; day <= lastDay; day.setUTCDate(day.getUTCDate() + 1)) {
    if (isCronDay(fields, day)) {
      const time = firstTime(fields, isFirstDay ? after.getUTCHours() * 60 + after.getUTCMinutes() : -1)
      if (time !== undefined) return new Date(day.getTime() + time * 60_000)
    }
    isFirstDay = false
  }
  return undefined
}

/** When both day fields are limited, a match of either is enough. */
export function isCronDay(fields: CronFields, day: Date): boolean {
  if (!fields.months.includes(day.getUTCMonth() + 1)) return false
  const byMonth = fields.daysOfMonth.includes(day.getUTCDate())
  const byWeek = fields.daysOfWeek.includes(day.getUTCDay())
  if (fields.anyDayOfMonth || fields.anyDayOfWeek) return byMonth && byWeek
  return byMonth || byWeek
}

/** Returns the first matching minute of the day, counted from midnight, after the given one. */
function firstTime(fields: CronFields, afterMinute: number): number | undefined {
  for (const hour of fields.hours) {
    const minute = fields.minutes.find((value) => hour * 60 + value > afterMinute)
    if (minute !== undefined) return hour * 60 + minute
  }
  return undefined
}

/** Names only: the engine would also accept offsets such as +02:00, which have no daylight saving time. */
export const timeZoneForm = /^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+){0,2}$/

export const TIME_ZONE_CHARS_MAX = 64

/** Accepts `UTC` or `Europe/Berlin` and returns the name unchanged; refuses a name that the engine's table does not contain. */
export function parseTimeZone(name: string): Decision<string> {
  if (name.length <= TIME_ZONE_CHARS_MAX && timeZoneForm.test(name) && isKnown(name)) return accept(name)
  return refuse('timezone_unknown', `${quote(name)} is not a time zone.`, {
    hint: 'Send an IANA name such as "Europe/Berlin" or "UTC".',
  })
}

function isKnown(name: string): boolean {
  try {
    // Only the constructor can check a single zone; it throws for an unknown one.
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}
