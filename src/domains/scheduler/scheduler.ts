/** What every service of this room gets: the file, the world, the settings, and whether this process may dispatch. */
import type { Clock, NewId, Random } from '#kernel/clock'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Database } from './database.ts'
import type { PassPoint } from './failpoints.ts'

/** Time, chance and ids come from outside; a test brings its own. */
export type SchedulerDeps = { readonly now: Clock; readonly random: Random; readonly newId: NewId }

/** The owner dispatches, fires schedules and recovers; guests submit, look, reorder, cancel and reserve beside it. */
const schedulerRoles = ['owner', 'guest'] as const
export type SchedulerRole = (typeof schedulerRoles)[number]

export type SchedulerSettings = {
  /** How many queued jobs may be in flight at once; 1 keeps strict order from start to end. */
  readonly workers: number
  readonly reservationMs: number
  /** How long the logs of ended runs and ended notifications are kept; rows of jobs and runs stay for ever. */
  readonly keepMs: number
  /** How much the logs of ended runs may take together; the oldest go first. */
  readonly logBytesMax: number
}

export type Scheduler = {
  readonly db: Database
  readonly deps: SchedulerDeps
  readonly settings: SchedulerSettings
  readonly role: SchedulerRole
  readonly pass: PassPoint
  /** Nothing is dispatched before recovery has ended in this process; memory is enough, since a restart recovers again. */
  readonly recovery: { isDone: boolean }
  close(): void
}

export function nowMs(scheduler: Scheduler): number {
  return scheduler.deps.now().getTime()
}

/** For what only the owner of the file may do. */
export function requireOwner(scheduler: Scheduler): Decision<undefined> {
  if (scheduler.role === 'owner') return accept(undefined)
  return refuse('scheduler.not_owner', 'only the process that owns the scheduler file may do this', {
    hint: 'Ask the running scheduler to do it.',
  })
}

export function requireRecovered(scheduler: Scheduler): Decision<undefined> {
  const owner = requireOwner(scheduler)
  if (!owner.ok || scheduler.recovery.isDone) return owner
  return refuse('scheduler.not_recovered', 'nothing is dispatched before recovery has ended', {
    hint: 'Call `recover` once after `openScheduler`.',
  })
}
