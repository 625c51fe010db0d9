/**
 * What an engine does for the book: it carries due turns to workers. The book keeps the row of every process, its due time, its
 * limits and its lease, so an engine may lose, repeat, delay and reorder what it carries, and may lose everything it has.
 */
import type { QueueSpec, RuntimeProfile } from '#runtime'
import type { Db } from '#store'

/** A due turn on its way. Every part of it goes through the engine and comes back as it was. */
export type GivenTurn = {
  /** `{book}:{turn}`: short, and unique for ever among all books. An engine may dedupe by it. */
  readonly name: string
  readonly book: string
  readonly kind: string
  readonly id: string
  readonly turn: number
  readonly queue: string
  readonly priority: number
}

export type EngineLog = (level: 'debug' | 'info' | 'warn' | 'error', message: string) => void

/** What a worker offers its carrier. */
export type CarrierHost = {
  /** Stands in every name that reaches the engine. */
  readonly book: string
  /** Of this process and no other, ever. */
  readonly executorId: string
  /** For an engine in the same Postgres: connections with the rights of the login that owns the schemas. */
  readonly db: Db
  /** The queues whose turns this worker takes. */
  readonly queues: ReadonlyMap<string, QueueSpec>
  /** How many more turns of the queue this worker has room for. */
  freeSlots(queue: string): number
  /** One process at a time in the whole installation, for whatever the engine has to bring in. */
  withLaunchLock<T>(work: () => Promise<T>): Promise<T>
  /**
   * Runs a turn to its end and never throws. `delivery` counts, from 1, how often the engine has brought this turn: of two that
   * it brings, the book refuses the older.
   */
  deliver(turn: GivenTurn, delivery: number): Promise<string>
  readonly log: EngineLog
}

export interface Carrier {
  readonly profile: RuntimeProfile
  /** Undefined when a carrier can be opened now; otherwise why not. */
  readonly unavailable: string | undefined
  /** Only in a process that gives turns. */
  open(host: CarrierHost): Promise<void>
  /** Whether the engine answers now. */
  ready(): Promise<boolean>
  /** Hands turns over; resolves to those that the engine did not take. The book gives them again. */
  give(turns: readonly GivenTurn[]): Promise<readonly GivenTurn[]>
  /** Limits of a whole installation are the book's; of a queue the engine needs its name and how many one worker runs. */
  defineQueue(name: string, spec: QueueSpec): Promise<void>
  /** `drainMs` undefined: as a crash would end it. */
  close(drainMs: number | undefined): Promise<void>
}
