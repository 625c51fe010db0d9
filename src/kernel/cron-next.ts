/**
 * Returns the next time that a cron expression names, on the calendar of one wall clock: a date in, a date out, both read by
 * their UTC fields. For UTC that is the due time; for another zone the caller converts wall time to an instant.
 */
import type { CronFields } from './cron-fields.ts'

/** A schedule whose next time is further away is refused: it is far more often a mistake than intended. */
export const CRON_YEARS_AHEAD = 5

/** Returns a time strictly after `after`, at most five years away; undefined when there is none. */
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
