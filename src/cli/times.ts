/** Times for people: on their clock, and how long ago. `--json` keeps the instants of the server. */
import type { Terminal } from './terminal.ts'

type Reader = Pick<Terminal, 'now' | 'zone'>

const SECOND_MS = 1_000
const steps = [
  ['d', 86_400 * SECOND_MS],
  ['h', 3_600 * SECOND_MS],
  ['min', 60 * SECOND_MS],
  ['s', SECOND_MS],
] as const

/** "14:03, 2 min ago", "04 Nov 14:03, 12 d ago", "15:00, in 57 min". Other texts are returned as they are. */
export function sayTime(reader: Reader, instant: string): string {
  const at = new Date(instant)
  return Number.isNaN(at.getTime()) ? instant : `${local(reader, at, false)}, ${distance(at, reader.now())}`
}

/** With seconds and without the distance, for lines in the order of time: "14:03:27". */
export function sayClock(reader: Reader, instant: string): string {
  const at = new Date(instant)
  return Number.isNaN(at.getTime()) ? instant : local(reader, at, true)
}

/** The day is left out today, the year in this year. */
function local(reader: Reader, at: Date, withSeconds: boolean): string {
  const [day, year, time] = partsOf(reader, at, withSeconds)
  const [today, thisYear] = partsOf(reader, reader.now(), withSeconds)
  if (year !== thisYear) return `${day} ${year} ${time}`
  return day === today ? time : `${day} ${time}`
}

function partsOf({ zone }: Reader, at: Date, withSeconds: boolean): readonly [day: string, year: string, time: string] {
  const parts = new Intl.DateTimeFormat('en-US', {
    year: 'numeric',
    month: 'short',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
    ...(zone !== undefined && { timeZone: zone }),
    ...(withSeconds && { second: '2-digit' }),
  }).formatToParts(at)
  const of = (name: string) => parts.find(({ type }) => type === name)?.value ?? ''
  const time = [of('hour'), of('minute'), of('second')].filter(Boolean).join(':')
  return [`${of('day')} ${of('month')}`, of('year'), time]
}

function distance(at: Date, now: Date): string {
  const ms = now.getTime() - at.getTime()
  const [unit, size] = steps.find(([, each]) => Math.abs(ms) >= each) ?? []
  if (unit === undefined) return 'just now'
  const count = `${Math.floor(Math.abs(ms) / size)} ${unit}`
  return ms > 0 ? `${count} ago` : `in ${count}`
}
