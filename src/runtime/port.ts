/**
 * The port to durable execution: processes take turns. Nothing here names an engine; whoever can give a process a turn
 * soon after a wake, at a due time, and again after a crash can stand behind it.
 */
import type { MisfirePolicy, OverlapPolicy } from '#kernel/schedule'
import type { Decision } from '#kernel/refusal'
import type { Fence } from './fence.ts'
import type { RuntimeProfile } from './profile.ts'
import type { QueueSpec } from './queues.ts'

/** Everything durable: a kind, an id, and the rows that the kind's owner keeps under that id. */
export type Process = { readonly kind: string; readonly id: string }

/** What a turn says about the time after it. It is the whole truth: it replaces what was asked for before the turn began. */
export type Next =
  /** A terminal state is on the row. */
  | { readonly t: 'done' }
  /** The slice is used up: another turn at once. */
  | { readonly t: 'again' }
  /** A retry time, an expiry, a ceiling; null waits for a wake. A wake brings it forward. */
  | { readonly t: 'wait'; readonly until: Date | null }

/** Moves a process as far as it goes now. Every write it makes carries the fence's token. */
export type Drive = (id: string, fence: Fence) => Promise<Next>

export type KindOptions = {
  /** Where its turns wait, unless a wake says otherwise; `concord_default`. */
  readonly queue?: string
  /** Smaller goes first; 0. */
  readonly priority?: number
  /** So many throws in a row make the process stuck; 8. */
  readonly failuresMax?: number
  /** So many workers that died in one and the same turn make it stuck; 10. */
  readonly attemptsMax?: number
}

/** A transaction of the store, in progress. The port never looks inside. */
export interface JoinableTx {
  readonly inTransaction: true
  /** Called once after a successful commit, never after a rollback. Where it is missing a turn starts a few ms later. */
  readonly afterCommit?: (work: () => void) => void
  /** Called once when it came to nothing. Where it is missing a slot that was kept for a turn is free a few seconds later. */
  readonly afterRollback?: (work: () => void) => void
}

export type WakeOptions = {
  /** The transaction that made the wake necessary: both commit or neither does. Wake last, it holds a lock until then. */
  readonly tx?: JoinableTx
  /** By the clock of the store; a whole number of milliseconds, at most 366 days. */
  readonly delayMs?: number
  readonly queue?: string
  readonly priority?: number
  /** The part of a partitioned queue that the process belongs to. */
  readonly partition?: string
}

type OperatorOptions = {
  /** The transaction that records the act: both commit or neither does. */
  readonly tx?: JoinableTx
}

type AbortOptions = OperatorOptions & {
  /** Where it waits when it is resumed, if the runtime has never heard of it; otherwise it stays where it was. */
  readonly queue?: string
}

export type ScheduleSpec = {
  readonly name: string
  /** Five fields. */
  readonly cron: string
  /** An IANA name; `UTC`. */
  readonly zone?: string
  /** What happens to a firing while the one before is not done. */
  readonly overlap: OverlapPolicy
  /** What happens to due times at which nobody was there. */
  readonly missed: MisfirePolicy
  /** Each firing is a process of this kind; its id is `schedule:{name}:{due time}`. */
  readonly kind: string
  readonly queue?: string
  /** How long after its due time a firing starts; at most an hour. */
  readonly jitterMs?: number
}

export type ScheduleView = {
  readonly spec: ScheduleSpec
  /** The newest due time that was decided. */
  readonly lastDueAt: Date | null
  readonly nextDueAt: Date | null
  readonly firedCount: number
  /** Due times that passed without a firing: late, or left out because of an overlap. */
  readonly missedCount: number
  /** Firings that are not done. */
  readonly openCount: number
}

const stuckReasons = ['failing', 'crashing', 'no_driver', 'aborted'] as const
export type StuckReason = (typeof stuckReasons)[number]

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

/** Room for one turn that its caller gives by himself, in this process. Left alone it is free again after a while. */
export type TurnSlot = {
  /** The turn begins; what it returns is called once, when the turn has ended. */
  begin(): () => void
  /** Nothing came of it. */
  release(): void
}

/** For operators and probes. */
export type RuntimeHealth = {
  readonly engine: string
  /** The engine answers, a worker lives, and no due turn has waited for more than a minute. */
  readonly ok: boolean
  /** Null in a process that only wakes: it has no connection to the engine. */
  readonly isEngineReachable: boolean | null
  /** How long the oldest due turn has waited to be handed over; null when none waits. */
  readonly waitingMs: number | null
  /** Workers with a lease. */
  readonly workers: number
}

export interface Runtime {
  readonly profile: RuntimeProfile
  /** Before `open`. One driver per kind. */
  register(kind: string, drive: Drive, options?: KindOptions): void
  /** Before `open`, or later to change the limits of a running installation. */
  defineQueue(name: string, spec: QueueSpec): Promise<Decision<void>>
  /** Ready means proven: a round trip through the engine has been made. */
  open(): Promise<Decision<void>>
  /** Gives no more turns, waits for those under way, and lets go of the rest for others to take over. */
  close(options?: { readonly drainMs?: number }): Promise<void>
  /** A turn of the process begins after this (and after the commit of `tx`). Wakes that nobody has answered yet count once. */
  wake(process: Process, options?: WakeOptions): Promise<void>
  /**
   * A slot of this worker in the queue, for work that starts where it was asked for, with no wake in between; what keeps it
   * alive is then the caller's. Undefined where the queue has to decide: it is full, others wait in it, it counts across
   * workers, or this process gives no turns. An engine that cannot tell always says undefined.
   */
  reserveSlot(queue: string): TurnSlot | undefined
  /** Undefined: nothing is open for it; it waits for a wake, is done, or was never woken. */
  describe(process: Process): Promise<ProcessView | undefined>
  health(): Promise<RuntimeHealth>

  /** The same name again replaces the spec; what was decided about due times stays decided. */
  schedule(spec: ScheduleSpec): Promise<Decision<ScheduleView>>
  /** True if there was one. Firings that are open go on. */
  unschedule(name: string): Promise<boolean>
  describeSchedule(name: string): Promise<ScheduleView | undefined>

  /** For operators: what gets no more turns by itself, oldest first. */
  stuck(options?: { readonly limit?: number }): Promise<readonly StuckProcess[]>
  /** For operators: a turn at once, with all counts at zero. */
  resume(process: Process, options?: OperatorOptions): Promise<Decision<void>>
  /**
   * For operators: no more turns, no compensation. The turn under way is fenced off; `resume` takes it back. What the caller gives by
   * himself (`reserveSlot`) is his to stop, on his rows, in the same transaction.
   */
  abort(process: Process, reason: string, options?: AbortOptions): Promise<void>
}
