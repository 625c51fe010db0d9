/**
 * When a schedule is due next. A schedule of certain hours is due at the first moment when the wall shows that time or has passed
 * it: once on the night the clocks jump, once on the night they go back. A schedule of every hour counts hours instead, so it
 * goes on evenly through both nights.
 */
import { type CronFields, parseCron } from '#kernel/cron-fields'
import { nextCronTime } from '#kernel/cron-next'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { parseTimeZone } from '#kernel/time-zone'

const HOUR_MS = 3_600_000
/** A wall time lies within a day of the instant with the same digits; no zone changes its offset twice in three days. */
const AROUND_MS = 36 * HOUR_MS
const WEEK_MS = 7 * 24 * HOUR_MS

const formats = new Map<string, Intl.DateTimeFormat>()

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone)
  if (known) return known
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    calendar: 'iso8601',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  formats.set(zone, format)
  return format
}

/** Milliseconds that the wall is ahead of UTC at an instant. */
export function offsetAt(zone: string, instantMs: number): number {
  if (zone === 'UTC') return 0
  const field: Record<string, number> = {}
  for (const { type, value } of formatOf(zone).formatToParts(instantMs)) field[type] = Number(value)
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = field
  const wall = Date.UTC(year, month - 1, day, hour, minute, second)
  // Parts have no milliseconds; before 1970 the rest of a division is negative.
  return wall - Math.floor(instantMs / 1_000) * 1_000
}

export function wallOf(zone: string, instantMs: number): Date {
  return new Date(instantMs + offsetAt(zone, instantMs))
}

/**
 * The first moment when the wall shows a time or has passed it. A time that the clocks skip in spring comes when they jump;
 * a time that they show twice in autumn comes the first time.
 */
export function firstMomentOf(zone: string, wall: Date): number {
  const wallMs = wall.getTime()
  const before = offsetAt(zone, wallMs - AROUND_MS)
  const after = offsetAt(zone, wallMs + AROUND_MS)
  if (before === after) return wallMs - before
  const change = changeBetween(zone, wallMs - AROUND_MS, wallMs + AROUND_MS)
  if (wallMs - before < change) return wallMs - before
  return Math.max(wallMs - after, change)
}

/** The first change of the offset after `fromMs`, up to and including `toMs`; undefined when there is none. */
function findChange(zone: string, fromMs: number, toMs: number): number | undefined {
  if (zone === 'UTC') return undefined
  const offset = offsetAt(zone, fromMs)
  for (let at = fromMs; at < toMs; ) {
    const next = Math.min(at + WEEK_MS, toMs)
    if (offsetAt(zone, next) !== offset) return changeBetween(zone, at, next)
    at = next
  }
  return undefined
}

/** The moment of the change between two instants with different offsets, to the second. */
function changeBetween(zone: string, fromMs: number, toMs: number): number {
  const offset = offsetAt(zone, fromMs)
  let low = Math.floor(fromMs / 1_000)
  let high = Math.ceil(toMs / 1_000)
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (offsetAt(zone, middle * 1_000) === offset) low = middle
    else high = middle
  }
  return high * 1_000
}

/** Strictly after `after`; undefined when there is none within five years. */
export function nextOccurrence(fields: CronFields, zone: string, after: Date): Date | undefined {
  return fields.hours.length === 24 ? nextEvenly(fields, zone, after) : nextByWall(fields, zone, after)
}

function nextByWall(fields: CronFields, zone: string, after: Date): Date | undefined {
  let wall = nextCronTime(fields, wallOf(zone, after.getTime()))
  while (wall) {
    const moment = firstMomentOf(zone, wall)
    if (moment > after.getTime()) return new Date(moment)
    // In the hour that is shown twice: this time came the first time round.
    wall = nextCronTime(fields, wall)
  }
  return undefined
}

/** From one change of the clocks to the next the wall runs evenly, so each stretch is asked by itself. */
function nextEvenly(fields: CronFields, zone: string, after: Date): Date | undefined {
  let stretchMs = after.getTime()
  let fromMs = stretchMs
  for (;;) {
    const offset = offsetAt(zone, stretchMs)
    const wall = nextCronTime(fields, new Date(fromMs + offset))
    if (!wall) return undefined
    const moment = wall.getTime() - offset
    const change = findChange(zone, stretchMs, moment)
    if (change === undefined) return new Date(moment)
    stretchMs = change
    // A millisecond before, so that the moment of the change itself can be due.
    fromMs = change - 1
  }
}

/** The next ten due times of a text, or why it has none. */
export function nextOccurrences(cron: string, zone: string, after: Date, count = 10): Decision<readonly Date[]> {
  const fields = parseCron(cron)
  if (!fields.ok) return fields
  const timezone = parseTimeZone(zone)
  if (!timezone.ok) return timezone
  const times: Date[] = []
  for (let last = after; times.length < count; ) {
    const next = nextOccurrence(fields.value, timezone.value, last)
    if (!next) break
    times.push(next)
    last = next
  }
  if (times.length > 0) return accept(times)
  return refuse('cron_never', `${quote(cron)} is not due within five years`, { path: 'cron_expression' })
}

export type RecentDueTimes = {
  /** In the order of time; the newest `keep` at least, where there are so many. */
  readonly times: readonly Date[]
  /** Due times before these exist as well. */
  readonly hasOlder: boolean
}

/**
 * The due times from `first` to `now` that are worth a decision of their own. After a year of absence a schedule of every minute
 * has half a million of them; so the look back grows by fours until it holds enough.
 */
export function listRecentDueTimes(
  fields: CronFields,
  zone: string,
  first: Date,
  now: Date,
  keep: number,
): RecentDueTimes {
  for (let backMs = 3_600_000; ; backMs *= 4) {
    const isAll = now.getTime() - backMs <= first.getTime()
    const start = isAll ? first.getTime() : now.getTime() - backMs
    const times: Date[] = []
    for (
      let next = nextOccurrence(fields, zone, new Date(start - 1));
      next && next <= now;
      next = nextOccurrence(fields, zone, next)
    ) {
      times.push(next)
    }
    if (isAll || times.length >= keep) return { times, hasOlder: !isAll }
  }
}
