/** Between instants and the clock on the wall of a time zone. A wall time is a Date that is read by its UTC fields. */

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
export function findChange(zone: string, fromMs: number, toMs: number): number | undefined {
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
