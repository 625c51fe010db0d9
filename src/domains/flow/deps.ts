/** The dependencies of this room. */
import type { CommandDeps } from '#domains/commands'
import type { Random } from '#kernel/clock'
import type { Runtime } from '#runtime'
import type { DataStore } from './data-store.ts'
import type { FlowTaskPayload, Operators } from './operator.ts'

/** Each task of the runtimes `dispatcher` and `lambda` is a process of this kind under its own id. */
export const TASK_KIND = 'flow_task'
/** A due time of a source. */
export const SOURCE_KIND = 'flow_source'
export const FLOW_QUEUE = 'flow_tasks'
/** Announced when workers may find a task. */
export const FLOW_OFFERS_CHANNEL = 'flow_offers'
/** Announced when the outbox has rows. */
export const OUTBOX_CHANNEL = 'flow_outbox'

export type FlowDeps = {
  readonly commands: CommandDeps
  readonly runtime: Pick<Runtime, 'wake' | 'schedule' | 'unschedule'>
  readonly operators: Operators
  readonly random: Random
  readonly data: DataStore
  /** Tells other processes that there is work. A notice may be lost, so every listener also polls. */
  readonly announce: (channel: string) => void
  /** Calls `beat` again and again until the returned function is called. */
  readonly keepAlive: (everyMs: number, beat: () => Promise<unknown>) => () => Promise<void>
  /** Calls a function at its address, signed. Throws if it does not answer with 2xx. */
  readonly callFunction?: (url: string, body: FlowTaskPayload, signal: AbortSignal) => Promise<void>
  /** Aborted when the process stops: running operators are told. */
  readonly stopping?: AbortSignal
}
