/**
 * The port to durable execution: processes take turns. Nothing here names an engine. An engine fits behind the port if it can
 * give a process a turn soon after a wake, at a due time, and again after a crash.
 */
import type { RepairedTime } from '#kernel/clock'
import type { MisfirePolicy, OverlapPolicy } from '#kernel/schedule'
import type { Decision } from '#kernel/refusal'
import type { Fence } from './fence.ts'
import type { RuntimeProfile } from './profile.ts'
import type { QueueSpec } from './queues.ts'

/** The unit of durable work: a kind, an id, and the rows that the owner of the kind keeps under that id. */
export type Process = { readonly kind: string; readonly id: string }

/** The result of a turn: when the next turn is due. It replaces every time that was requested before the turn began. */
export type Next =
  /** The row is in a terminal state. */
  | { readonly t: 'done' }
  /** The time slice is used up: another turn starts at once. */
  | { readonly t: 'again' }
  /** Until a retry time, an expiry or a deadline; null waits for a wake. A wake brings the turn forward. */
  | { readonly t: 'wait'; readonly until: Date | null }

/** Moves a process as far as it can go now. Every write carries the fence's token. */
export type Drive = (id: string, fence: Fence) => Promise<Next>

export type KindOptions = {
  /** The queue of its turns unless a wake names another; default `concord_default`. */
  readonly queue?: string
  /** A smaller number goes first; default 0. */
  readonly priority?: number
  /** This many consecutive throws make the process stuck; default 8. */
  readonly failuresMax?: number
  /** This many workers that died during one turn make the process stuck; default 10. */
  readonly attemptsMax?: number
}

/** A transaction of the store, in progress. The port never looks inside it. */
export interface JoinableTx {
  readonly inTransaction: true
  /** Registers a hook that runs once after a successful commit, never after a rollback. Without it a turn starts a few ms later. */
  readonly afterCommit?: (work: () => void) => void
  /** Registers a hook that runs once after a rollback. Without it a slot reserved for a turn is freed a few seconds later. */
  readonly afterRollback?: (work: () => void) => void
}

export type WakeOptions = {
  /** The transaction that made the wake necessary: both commit or neither does. Wake last, since it locks a row until the commit. */
  readonly tx?: JoinableTx
  /** Measured by the store's clock; a whole number of milliseconds, at most 366 days. */
  readonly delayMs?: number
  readonly queue?: string
  readonly priority?: number
  /** The partition of a partitioned queue that the process belongs to. */
  readonly partition?: string
}

type OperatorOptions = {
  /** The transaction that records the operator's action: both commit or neither does. */
  readonly tx?: JoinableTx
}

type AbortOptions = OperatorOptions & {
  /** The queue to resume in when the runtime does not know the process; otherwise its queue stays unchanged. */
  readonly queue?: string
}

export type RuntimeSchedule = {
  readonly name: string
  /** Five fields. */
  readonly cron: string
  /** An IANA name; default `UTC`. */
  readonly zone?: string
  /** What happens to a firing while the previous one is still open. */
  readonly overlap: OverlapPolicy
  /** What happens to due times that passed while no worker ran. */
  readonly missed: MisfirePolicy
  /** Each firing is a process of this kind; its id is `schedule:{name}:{due time}`. */
  readonly kind: string
  readonly queue?: string
  /** The delay between due time and start of a firing; at most an hour. */
  readonly jitterMs?: number
}

export type ScheduleView = {
  readonly spec: RuntimeSchedule
  /** The newest due time that has been decided. */
  readonly lastDueAt: Date | null
  readonly nextDueAt: Date | null
  readonly firedCount: number
  /** Due times that passed without a firing: too late, or skipped because of an overlap. */
  readonly missedCount: number
  /** Firings that have not ended. */
  readonly openCount: number
}

export type StuckReason = 'failing' | 'crashing' | 'no_driver' | 'aborted'

export type StuckProcess = Process & {
  readonly why: StuckReason
  readonly detail: string
  readonly since: Date
}

export type ProcessView = Process & {
  readonly state: 'queued' | 'waiting' | 'running' | 'stuck'
  readonly turn: number
  readonly dueAt: Date
  readonly queue: string
  readonly failures: number
}

/** A slot for one turn that the caller runs in this process. An unused slot is freed after a while. */
type TurnSlot = {
  /** Begins the turn. Call the returned function once, when the turn has ended. */
  begin(): () => void
  /** Frees the slot without a turn. */
  release(): void
}

/** For operators and probes. */
export type RuntimeHealth = {
  readonly engine: string
  /** True when the engine answers, a worker is alive, and no due turn has waited for more than a minute. */
  readonly ok: boolean
  /** Null in a process that only wakes: it has no connection to the engine. */
  readonly isEngineReachable: boolean | null
  /** How long the oldest due turn has waited to start; null when none is waiting. */
  readonly waitingMs: number | null
  /** Workers that hold a lease. */
  readonly workers: number
}

export interface Runtime {
  readonly profile: RuntimeProfile
  /** Call before `open`. One driver per kind. */
  register(kind: string, drive: Drive, options?: KindOptions): void
  /** Call before `open`, or later to change the limits of a running installation. */
  defineQueue(name: string, spec: QueueSpec): Promise<Decision<void>>
  /** Resolves after a round trip through the engine has succeeded. */
  open(): Promise<Decision<void>>
  /** Takes no more turns, waits for the running ones, and releases the rest for other workers. */
  close(options?: { readonly drainMs?: number }): Promise<void>
  /** Requests a turn that begins after this call and after the commit of `tx`. Unanswered wakes count once. */
  wake(process: Process, options?: WakeOptions): Promise<void>
  /**
   * Reserves a slot of this worker in the queue, for work that starts in the calling process without a wake. The caller keeps that
   * work alive. Returns undefined when only the queue can decide: it is full, other turns wait in it, its limits count across
   * workers, or this process runs no turns. An engine that cannot decide always returns undefined.
   */
  reserveSlot(queue: string): TurnSlot | undefined
  /** Returns undefined when the process has no open turn: it waits for a wake, has ended, or was never woken. */
  describe(process: Process): Promise<ProcessView | undefined>
  health(): Promise<RuntimeHealth>
  /**
   * Corrects times that were written while the clock was ahead, and records them together with those that the caller has corrected. Call it
   * at the start and after the clock was set back.
   */
  repairTimes(also?: readonly RepairedTime[]): Promise<readonly RepairedTime[]>

  /** Creates or replaces the spec of that name; decisions about past due times stay. */
  schedule(spec: RuntimeSchedule): Promise<Decision<ScheduleView>>
  /** Returns true if the schedule existed. Open firings continue. */
  unschedule(name: string): Promise<boolean>
  describeSchedule(name: string): Promise<ScheduleView | undefined>

  /** For operators: lists processes that get no more turns on their own, oldest first. */
  stuck(options?: { readonly limit?: number }): Promise<readonly StuckProcess[]>
  /** For operators: gives a turn at once and resets all counters to zero. */
  resume(process: Process, options?: OperatorOptions): Promise<Decision<void>>
  /**
   * For operators: ends all turns without compensation. The running turn is fenced off; `resume` reverses the abort. A turn that
   * the caller runs itself (`reserveSlot`) must be stopped by the caller, on its own rows, in the same transaction.
   */
  abort(process: Process, reason: string, options?: AbortOptions): Promise<void>
}
