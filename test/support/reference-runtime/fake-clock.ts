/** A clock that stands still until it is told to move on. */
import type { Clock } from '#kernel/clock'

export type FakeClock = {
  readonly now: Clock
  /** Never back. */
  moveTo(time: Date): void
}

export function openFakeClock(start: Date = new Date(Date.UTC(2026, 0, 1))): FakeClock {
  let ms = start.getTime()
  return {
    now: () => new Date(ms),
    moveTo(time) {
      ms = Math.max(ms, time.getTime())
    },
  }
}
