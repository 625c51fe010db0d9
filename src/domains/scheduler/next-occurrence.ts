/**
 * Computes the due times of a schedule. A schedule with specific hours is due at the first instant when local time reaches or
 * passes the given time: once on the night when clocks go forward, once on the night when they go back. A schedule of every
 * hour counts hours instead, so it continues evenly through both nights.
 */
import { type CronFields, nextCronTime, parseCron, parseTimeZone } from '#kernel/cron'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'

const HOUR_MS = 3_600_000
/** A local time is within a day of the UTC instant with the same digits, and no zone changes its offset twice in three days. */
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

/** Returns by how many milliseconds local time is ahead of UTC. */
export function offsetAt(zone: string, instantMs: number): number {
  if (zone === 'UTC') return 0
  const field: Record<string, number> = {}
  for (const { type, value } of formatOf(zone).formatToParts(instantMs)) field[type] = Number(value)
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = field
  const wall = Date.UTC(year, month - 1, day, hour, minute, second)
  // The parts have no milliseconds. `floor`, because instants before 1970 are negative.
  return wall - Math.floor(instantMs / 1_000) * 1_000
}

export function wallOf(zone: string, instantMs: number): Date {
  return new Date(instantMs + offsetAt(zone, instantMs))
}

/**
 * Returns the first instant when local time reaches or passes a given time. A time skipped in spring maps to the moment of
 * the change; a time that occurs twice in autumn maps to its first occurrence.
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

/** Finds the first change of the offset after `fromMs`, up to and including `toMs`. */
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

/** Finds the change between two instants with different offsets, to the second. */
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

/** Returns the first due time strictly after `after`; undefined when there is none within five years. */
export function nextOccurrence(fields: CronFields, zone: string, after: Date): Date | undefined {
  return fields.hours.length === 24 ? nextEvenly(fields, zone, after) : nextByWall(fields, zone, after)
}

function nextByWall(fields: CronFields, zone: string, after: Date): Date | undefined {
  let wall = nextCronTime(fields, wallOf(zone, after.getTime()))
  while (wall) {
    const moment = firstMomentOf(zone, wall)
    if (moment > after.getTime()) return new Date(moment)
    // In the repeated hour: this time was due in its first occurrence.
    wall = nextCronTime(fields, wall)
  }
  return undefined
}

/** Local time runs evenly between two changes of the clocks, so each stretch is searched separately. */
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
    // One millisecond earlier, so that the moment of the change itself can be due.
    fromMs = change - 1
  }
}

/** Lists the next due times of a cron expression, or refuses with the reason why it has none. */
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
  return refuse('cron_never', `${quote(cron)} is not due within five years.`, { path: 'cron_expression' })
}

export type RecentDueTimes = {
  /** Oldest first; at least the newest `keep`, if that many exist. */
  readonly times: readonly Date[]
  /** Whether earlier due times exist. */
  readonly hasOlder: boolean
}

/**
 * Lists the due times from `first` to `now` that need a decision of their own. After a year of downtime a schedule of every
 * minute has half a million due times, so the window grows by a factor of four until it holds enough.
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
