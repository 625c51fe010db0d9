/**
 * Wakes a process: one call to the database, inside the caller's transaction or alone. When this worker has a slot, the turn is
 * written as begun and starts right after the commit, without the engine; otherwise it waits in the book for a relay.
 */
import { KernelFault } from '#kernel/errors'
import {
  checkProcess,
  checkWake,
  DEFAULT_QUEUE,
  type JoinableTx,
  type Process,
  type QueueSpec,
  type WakeOptions,
} from '#runtime'
import type { Db, Sql } from '#store'
import { wakeProcess, type Woken } from './statements.ts'
import type { Kind, TurnRunner } from './turn-runner.ts'

type WakerOptions = {
  readonly specOf: (queue: string) => QueueSpec | undefined
  readonly kindOf: (kind: string) => Kind | undefined
  /** Undefined in a process that runs no turns itself. */
  readonly worker?: {
    readonly executorId: string
    readonly turns: Pick<TurnRunner, 'start'>
    offerSlot(queue: string, kind: string): (() => void) | undefined
  }
  readonly onOpened: (queue: string) => void
  /** The turn is due in another queue than the wake has named. */
  readonly onElsewhere: () => void
  readonly onDelayed: (queue: string, waitMs: number) => void
}

type InternalWake = {
  /** The wake opens a firing of this schedule. */
  readonly schedule?: string
  /** False sends the turn through the engine even when this worker has a slot. */
  readonly startsHere?: boolean
}

export type Wake = (process: Process, options: WakeOptions, internal?: InternalWake) => Promise<void>

/** When to look for the turn without a commit hook. After the last attempt the poll finds it. */
const LOOK_AFTER_MS = [2, 6, 15, 40] as const

export function openWaker(db: Db, { specOf, kindOf, worker, onOpened, onElsewhere, onDelayed }: WakerOptions): Wake {
  function announce(
    process: Process,
    { outcome, turn, fence, wait_ms }: Woken,
    queue: string,
    release?: () => void,
  ): void {
    if (outcome === 'started' && release) {
      worker?.turns.start({ process, turn: Number(turn), queue, fence: Number(fence), attempt: 1 }, release)
    }
    if (outcome === 'delayed') onDelayed(queue, wait_ms)
    if (outcome === 'opened') onOpened(queue)
    if (outcome === 'elsewhere') onElsewhere()
  }

  function resolve({ kind }: Process, { queue: named, priority, partition }: WakeOptions) {
    const options = kindOf(kind)?.options ?? {}
    const queue = named ?? options.queue ?? DEFAULT_QUEUE
    const spec = specOf(queue)
    if (!spec) throw new KernelFault('runtime.queue.unknown', `There is no queue ${queue}.`, { queue })
    if (spec.partition && partition === undefined) {
      throw new KernelFault('runtime.wake.partition', `The queue ${queue} needs a partition.`, { queue })
    }
    const moves = named !== undefined || priority !== undefined || partition !== undefined
    return {
      queue,
      priority: priority ?? options.priority ?? spec.priority ?? 0,
      partition: spec.partition ? partition : undefined,
      moves,
    }
  }

  return async (process, options, { schedule, startsHere = true } = {}) => {
    checkProcess(process)
    checkWake(options)
    const { queue, priority, partition, moves } = resolve(process, options)
    const { tx, delayMs = 0 } = options
    // Without a commit hook a started turn cannot be distinguished from one that was rolled back.
    const canStart = startsHere && delayMs === 0 && (tx === undefined || tx.afterCommit !== undefined)
    const release = canStart ? worker?.offerSlot(queue, process.kind) : undefined
    const where = [queue, priority, partition ?? null, moves, schedule ?? null]
    const row = await (tx ? sqlOf(tx) : db)
      .run(wakeProcess, [process.kind, process.id, delayMs, ...where, release ? (worker?.executorId ?? null) : null])
      .then(([woken]) => woken)
      .catch((error: unknown) => {
        release?.()
        throw error
      })
    if (!row || row.outcome !== 'started') release?.()
    if (!row) return
    if (tx === undefined) announce(process, row, queue, release)
    else if (tx.afterCommit) {
      tx.afterCommit(() => announce(process, row, queue, release))
      if (release) tx.afterRollback?.(release)
    } else if (row.outcome === 'delayed') announce(process, row, queue)
    else for (const ms of LOOK_AFTER_MS) setTimeout(() => announce(process, row, queue), ms).unref()
  }
}

/** The port declares a transaction only by a marker type; here it must be a transaction of the store. */
export function sqlOf(tx: JoinableTx): Sql {
  if (typeof (tx as Partial<Sql>).run === 'function') return tx as JoinableTx & Sql
  throw new KernelFault('runtime.wake.tx', 'The transaction does not belong to the store.')
}
