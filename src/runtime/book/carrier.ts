/**
 * The interface of an engine: it delivers due turns to workers. The book keeps the row of every process, its due time, its
 * limits and its lease, so an engine may lose, repeat, delay and reorder turns, and may lose all of its own state.
 */
import type { QueueSpec, RuntimeProfile } from '#runtime'
import type { Db } from '#store'

/** A due turn that is being delivered. The engine returns every field unchanged. */
export type GivenTurn = {
  /** `{book}:{turn}`: short, and unique among all books. An engine may deduplicate by it. */
  readonly name: string
  readonly book: string
  readonly kind: string
  readonly id: string
  readonly turn: number
  readonly queue: string
  readonly priority: number
}

export type EngineLog = (level: 'debug' | 'info' | 'warn' | 'error', message: string) => void

/** The services that a worker offers to its carrier. */
export type CarrierHost = {
  /** A part of every name that reaches the engine. */
  readonly book: string
  /** Never reused by another process. */
  readonly executorId: string
  /** For an engine in the same Postgres: connections with the rights of the login that owns the schemas. */
  readonly db: Db
  /** The queues that this worker takes turns from. */
  readonly queues: ReadonlyMap<string, QueueSpec>
  /** Returns how many more turns of the queue fit into this worker. */
  freeSlots(queue: string): number
  /** Runs one process at a time in the whole installation, for the engine's own set-up. */
  withLaunchLock<T>(work: () => Promise<T>): Promise<T>
  /**
   * Runs a turn to its end and never throws. `delivery` counts from 1 how often the engine has delivered this turn; the book
   * refuses the older of two deliveries.
   */
  deliver(turn: GivenTurn, delivery: number): Promise<string>
  readonly log: EngineLog
}

export interface Carrier {
  readonly profile: RuntimeProfile
  /** Undefined when a carrier can be opened now; otherwise the reason why not. */
  readonly unavailable: string | undefined
  /** Called only in a process that runs turns. */
  open(host: CarrierHost): Promise<void>
  /** Whether the engine answers now. */
  ready(): Promise<boolean>
  /** Hands turns over; resolves to those that the engine did not accept. The book gives them again. */
  give(turns: readonly GivenTurn[]): Promise<readonly GivenTurn[]>
  /** The book enforces limits of the whole installation; the engine needs the queue's name and the turns per worker. */
  defineQueue(name: string, spec: QueueSpec): Promise<void>
  /** With `drainMs` undefined it ends as a crash would. */
  close(drainMs: number | undefined): Promise<void>
}
