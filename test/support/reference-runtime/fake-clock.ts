/** A clock that a test moves. */
import type { Clock } from '#kernel/clock'

export type FakeClock = {
  readonly now: Clock
  /** Moves only forward. */
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
