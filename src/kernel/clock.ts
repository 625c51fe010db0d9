/** Time, randomness and ids are arguments: the kernel never reads a clock, draws a random number or creates an id. */
export type Clock = () => Date
/** A number in [0, 1). */
export type Random = () => number
export type NewId = () => string

/** A stored time that was not believed: it was written while the clock was ahead, and the clock has been set back since. */
export type RepairedTime = {
  readonly what: 'schedule' | 'turn' | 'worker' | 'command' | 'approval'
  readonly id: string
  /** How far ahead of the clock it lay. */
  readonly aheadMs: number
}

/** Clocks of machines differ and are adjusted by less than this. A time that is further ahead than its own length and this is not believed. */
export const AHEAD_MAX_MS = 2_000
