/** What a connector may use of the world: time comes from outside, and nothing here reaches the database of Concord. */
import type { Clock } from '#kernel/clock'

export type ConnectorTools = {
  readonly now: Clock
  /** Settles after the time, or at once when the signal is aborted. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}
