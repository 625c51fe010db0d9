/**
 * When a schedule is due next. A schedule of certain hours is due at the first moment when the wall shows that time or has passed
 * it: once on the night the clocks jump, once on the night they go back. A schedule of every hour counts hours instead, so it
 * goes on evenly through both nights.
 */
import { type CronFields, parseCron } from '#kernel/cron-fields'
import { nextCronTime } from '#kernel/cron-next'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { parseTimeZone } from '#kernel/time-zone'
import { findChange, firstMomentOf, offsetAt, wallOf } from './zone-clock.ts'

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
