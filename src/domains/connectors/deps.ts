/** What this room needs from outside. */
import type { Clock, NewId } from '#kernel/clock'
import type { Db } from '#store'
import type { Secrets } from './secrets.ts'

export type ConnectorDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  /** Settles after the time, or at once when the signal is aborted. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
  readonly secrets: Secrets
}
