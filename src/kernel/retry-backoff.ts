/** Computes the wait after a failed attempt from settings that are data: they can be stored, compared and printed. */
import type { Random } from './clock.ts'

export type Backoff = {
  readonly delay:
    | { readonly kind: 'none' }
    | { readonly kind: 'fixed'; readonly ms: number }
    /** The first follows attempt 1, the second attempt 2; the last one repeats. */
    | { readonly kind: 'list'; readonly ms: readonly number[] }
    | { readonly kind: 'exponential'; readonly baseMs: number; readonly factor: number; readonly capMs: number }
  /** The random share of the delay, 0 to 1: with 0.2 the wait is between 80 % and 100 % of it. Default: none. */
  readonly jitter?: number
}

/** Returns whole milliseconds; randomness only shortens a wait, so a cap stays a cap. */
export function delayAfter(backoff: Backoff, attempt: number, random: Random): number {
  const full = fullDelay(backoff.delay, attempt)
  const jitter = backoff.jitter ?? 0
  return Math.round(jitter === 0 ? full : full * (1 - jitter * random()))
}

/** The longest wait that another system can request, unless the settings themselves wait longer. */
export const ASKED_WAIT_MAX_MS = 3_600_000

/** Returns the wait that the other system requested, in whole milliseconds; an invalid time counts as none. */
export function boundedWait(backoff: Backoff, askedMs: number | undefined): number {
  if (askedMs === undefined || !(askedMs > 0)) return 0
  return Math.min(Math.ceil(askedMs), Math.max(ASKED_WAIT_MAX_MS, longestDelay(backoff.delay)))
}

function longestDelay(delay: Backoff['delay']): number {
  switch (delay.kind) {
    case 'none':
      return 0
    case 'fixed':
      return delay.ms
    case 'list':
      return Math.max(0, ...delay.ms)
    case 'exponential':
      return delay.capMs
  }
}

function fullDelay(delay: Backoff['delay'], attempt: number): number {
  switch (delay.kind) {
    case 'none':
      return 0
    case 'fixed':
      return delay.ms
    case 'list':
      return delay.ms[attempt - 1] ?? delay.ms.at(-1) ?? 0
    case 'exponential':
      // Attempt 2,000 overflows to infinity, and the cap limits it; zero times infinity would be NaN.
      return delay.baseMs === 0 ? 0 : Math.min(delay.baseMs * delay.factor ** (attempt - 1), delay.capMs)
  }
}
