/**
 * Returns the next due time of a cron expression in a time zone. On the day of a clock change each due time occurs once: a time
 * that the clocks skip is due at the jump, and a time that occurs twice is due the first time. An expression that names every hour
 * follows elapsed time instead, so that nothing pauses for an hour in autumn.
 */
import { type CronFields, nextCronTime } from '#kernel/cron'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** Returns a time strictly after `after`, or undefined when there is none within five years. */
export function nextDueTime(fields: CronFields, zone: string, after: Date): Date | undefined {
  if (zone === 'UTC') return nextCronTime(fields, after)
  return fields.hours.length === 24 ? nextByElapsedTime(fields, zone, after) : nextByWallTime(fields, zone, after)
}

/** Due times older than this are dropped: a week of minutes is 10,080 due times. */
const LOOK_BACK_MS = 7 * DAY_MS

/** Returns all due times after `after` and up to `until`, oldest first; none older than a week before `until`. */
export function dueTimes(fields: CronFields, zone: string, after: Date, until: Date): readonly Date[] {
  const from = new Date(Math.max(after.getTime(), until.getTime() - LOOK_BACK_MS))
  const found: Date[] = []
  for (let due = nextDueTime(fields, zone, from); due && due <= until; due = nextDueTime(fields, zone, due))
    found.push(due)
  return found
}

function nextByWallTime(fields: CronFields, zone: string, after: Date): Date | undefined {
  // During the repeated hour the wall clock shows times earlier than `after`: start a day back and skip.
  let wall: Date | undefined = new Date(wallOf(after, zone) - DAY_MS)
  for (;;) {
    wall = nextCronTime(fields, wall)
    if (wall === undefined) return undefined
    const due = firstInstantOf(wall.getTime(), zone)
    if (due > after.getTime()) return new Date(due)
  }
}

function nextByElapsedTime(fields: CronFields, zone: string, after: Date): Date | undefined {
  let from = after.getTime()
  for (;;) {
    const offset = offsetOf(from, zone)
    const wall = nextCronTime(fields, new Date(from + offset))
    if (wall === undefined) return undefined
    const due = wall.getTime() - offset
    if (offsetOf(due, zone) === offset) return new Date(due)
    // The clocks change before that: search again from the last millisecond before the change, with the new offset.
    const change = changeBetween(from, due, zone)
    const next = nextCronTime(fields, new Date(change + offsetOf(change, zone) - MINUTE_MS))
    if (next === undefined) return undefined
    const behind = next.getTime() - offsetOf(change, zone)
    if (behind >= change && offsetOf(behind, zone) === offsetOf(change, zone)) return new Date(behind)
    from = change
  }
}

/** Returns the first instant at which a clock in the zone shows `wall` or, where it skips that time, a later one. */
function firstInstantOf(wall: number, zone: string): number {
  const early = wall - Math.max(offsetOf(wall - DAY_MS, zone), offsetOf(wall + DAY_MS, zone))
  const late = wall - Math.min(offsetOf(wall - DAY_MS, zone), offsetOf(wall + DAY_MS, zone))
  if (wallOf(new Date(early), zone) >= wall) return early
  if (early === late) return early
  // Either the clocks skip it in between, or it occurs once, before or after the change.
  const change = changeBetween(early, late, zone)
  const shown = change + offsetOf(change, zone)
  return shown >= wall ? change : late
}

/** Returns the instant of the only offset change in (from, to]. */
function changeBetween(from: number, to: number, zone: string): number {
  const before = offsetOf(from, zone)
  let [low, high] = [from, to]
  while (high - low > 1) {
    const middle = low + Math.floor((high - low) / 2)
    if (offsetOf(middle, zone) === before) low = middle
    else high = middle
  }
  return high
}

function wallOf(instant: Date, zone: string): number {
  return instant.getTime() + offsetOf(instant.getTime(), zone)
}

const formats = new Map<string, Intl.DateTimeFormat>()

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone)
  if (known) return known
  const whole = {
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  } as const
  const made = new Intl.DateTimeFormat('en-US', { timeZone: zone, hourCycle: 'h23', era: 'short', ...whole })
  formats.set(zone, made)
  return made
}

/** Returns the milliseconds by which the wall clock is ahead of UTC. */
function offsetOf(instant: number, zone: string): number {
  const part = new Map(
    formatOf(zone)
      .formatToParts(instant)
      .map(({ type, value }) => [type, value]),
  )
  const number = (type: string) => Number(part.get(type as Intl.DateTimeFormatPartTypes))
  const wall = Date.UTC(
    number('year'),
    number('month') - 1,
    number('day'),
    number('hour'),
    number('minute'),
    number('second'),
  )
  // The parts have no milliseconds; before 1970 the remainder belongs to the previous second.
  return wall - Math.floor(instant / 1_000) * 1_000
}
