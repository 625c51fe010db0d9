/** The `Scheduler` that every service receives: the file, its dependencies, the settings and the role of this process. */
import type { Clock, NewId, Random } from '#kernel/clock'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Database } from './database.ts'
import type { PassPoint } from './failpoints.ts'

/** Time, randomness and ids are injected, so that tests control them. */
export type SchedulerDeps = { readonly now: Clock; readonly random: Random; readonly newId: NewId }

/** Supplied by the caller. Resolves after the time or on abort, whichever is first; never rejects. */
export type Wait = (ms: number, signal?: AbortSignal) => Promise<void>

/** The owner dispatches, fires schedules and recovers; guests submit, read, reorder, cancel and reserve. */
export type SchedulerRole = 'owner' | 'guest'

export type SchedulerSettings = {
  /** How many queued jobs may be in flight at once; 1 runs them strictly one after the other. */
  readonly workers: number
  readonly reservationMs: number
  /** How long logs of ended runs and ended notifications are kept. Rows of jobs and runs are kept forever. */
  readonly keepMs: number
  /** The total size of the logs of ended runs; the oldest are deleted first. */
  readonly logBytesMax: number
}

export type Scheduler = {
  readonly db: Database
  readonly deps: SchedulerDeps
  readonly settings: SchedulerSettings
  readonly role: SchedulerRole
  readonly pass: PassPoint
  /** Nothing is dispatched before recovery has ended. Kept in memory only, because a restart recovers again. */
  readonly recovery: { isDone: boolean }
  close(): void
}

export function nowMs(scheduler: Scheduler): number {
  return scheduler.deps.now().getTime()
}

export function requireOwner(scheduler: Scheduler): Decision<undefined> {
  if (scheduler.role === 'owner') return accept(undefined)
  return refuse('scheduler.not_owner', 'Only the process that owns the scheduler file can do this.', {
    hint: 'Ask the running scheduler to do it.',
  })
}

export function requireRecovered(scheduler: Scheduler): Decision<undefined> {
  const owner = requireOwner(scheduler)
  if (!owner.ok || scheduler.recovery.isDone) return owner
  return refuse('scheduler.not_recovered', 'Nothing is dispatched before recovery has ended.', {
    hint: 'Call `recover` once after `openScheduler`.',
  })
}
