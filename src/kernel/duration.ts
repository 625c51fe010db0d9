/** The only duration type: whole milliseconds from 1 ms to 366 days, parsed from one number and one unit. */
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'

declare const durationBrand: unique symbol
export type DurationMs = number & { readonly [durationBrand]: true }

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
type Unit = keyof typeof unitMs

export const MAX_DURATION_MS = 366 * unitMs.d

/** Node fires a timer above this many milliseconds (24.8 days) immediately instead of late. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** The whole numbers from 1 to `max`, as a regular expression: `[1-9]|[1-5][0-9]|60` for 60. */
function numbersTo(max: number): string {
  const digits = Array.from(String(max), Number)
  const any = (count: number) => (count === 0 ? '' : `[0-9]{${count}}`)
  const smaller = digits.flatMap((digit, at) => {
    const least = at === 0 ? 1 : 0
    const head = digits.slice(0, at).join('')
    return digit > least ? `${head}[${least}-${digit - 1}]${any(digits.length - at - 1)}` : []
  })
  const shorter = digits.length > 1 ? [`[1-9][0-9]{0,${digits.length - 2}}`] : []
  return [...shorter, ...smaller, max].join('|')
}

/** Every duration up to `maxMs`, for documents. */
export function durationForm(maxMs = MAX_DURATION_MS): string {
  const units = (['ms', 's', 'm', 'h', 'd'] as const).filter((unit) => unitMs[unit] <= maxMs)
  return `^0*(?:${units.map((unit) => `(?:${numbersTo(Math.floor(maxMs / unitMs[unit]))})${unit}`).join('|')})$`
}

const FORM = /^0*(\d{1,11})(ms|s|m|h|d)$/

/** Parses `500ms`, `5s`, `10m`, `2h` or `40d`; refuses words, signs, fractions, zero and more than 366 days. */
export function parseDuration(text: string): Decision<DurationMs> {
  const [, count, unit] = FORM.exec(text) ?? []
  if (count === undefined || !isUnit(unit)) return badDuration(quote(text))
  return durationFromMs(Number(count) * unitMs[unit], quote(text))
}

/** Parses the timeouts that may also be disabled (`never`) or immediate (`0`). */
export function parseIdleTimeout(text: string): Decision<DurationMs | 'never' | 0> {
  if (text === 'never') return accept('never')
  return text === '0' ? accept(0) : parseDuration(text)
}

export function durationFromMs(ms: number, shown = `${ms} ms`): Decision<DurationMs> {
  // The only place that assigns the brand: a whole number inside the range.
  return Number.isInteger(ms) && ms >= 1 && ms <= MAX_DURATION_MS ? accept(ms as DurationMs) : badDuration(shown)
}

/** Returns a text that `parseDuration` reads back, in the largest unit without a remainder: `90m`, `36h`, `2d`. */
export function formatDuration(duration: DurationMs): string {
  const unit = (['d', 'h', 'm', 's', 'ms'] as const).find((name) => duration % unitMs[name] === 0) ?? 'ms'
  return `${duration / unitMs[unit]}${unit}`
}

const spoken = [
  ['d', unitMs.d],
  ['h', unitMs.h],
  ['min', unitMs.m],
  ['s', unitMs.s],
  ['ms', 1],
] as const

/** For people: the largest unit and the one below it (`2 h 5 min`), truncated, never rounded up. */
export function describeDuration(ms: number): string {
  const whole = Math.max(0, Math.floor(ms))
  const first = spoken.findIndex(([, size]) => whole >= size)
  if (first === -1) return '0 ms'
  let rest = whole
  const parts: string[] = []
  for (const [name, size] of spoken.slice(first, first + 2)) {
    const count = Math.floor(rest / size)
    rest -= count * size
    if (count > 0) parts.push(`${count} ${name}`)
  }
  return parts.join(' ')
}

/** Returns how long the next timer of a wait may run: a long wait is a series of short ones, each checked against the clock. */
export function nextTimerMs(remainingMs: number): number {
  return Math.min(Math.max(0, Math.ceil(remainingMs)), MAX_TIMER_MS)
}

function isUnit(text: string | undefined): text is Unit {
  return text !== undefined && Object.hasOwn(unitMs, text)
}

function badDuration(shown: string): Refusal {
  return refuse('duration', `${shown} is not a duration: ms, s, m, h, d; up to 366d.`, {
    hint: 'Send one number and one unit, such as "500ms", "10m" or "40d".',
    facts: { units: Object.keys(unitMs), maxMs: MAX_DURATION_MS },
  })
}
