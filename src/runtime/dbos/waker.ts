/**
 * Wakes: one statement, in the transaction of the fact where there is one. Where this worker has a place, the turn is written as
 * started and begins right after the commit, with no queue and no poll in between; otherwise it goes into its queue.
 */
import { randomUUID } from 'node:crypto'
import { KernelFault } from '#kernel/errors'
import {
  checkProcess,
  checkWake,
  DEFAULT_QUEUE,
  type JoinableTx,
  type Process,
  type QueueSpec,
  turnName,
  type WakeOptions,
} from '#runtime'
import type { Db, Sql } from '#store'
import { wakeProcess, type Woken } from './statements.ts'
import type { Kind } from './turns.ts'
import type { Worker } from './worker.ts'

export type Place = { readonly owner: string; readonly release: () => void }

export type WakerOptions = {
  readonly specOf: (queue: string) => QueueSpec | undefined
  readonly kindOf: (kind: string) => Kind | undefined
  readonly executorId: () => string
  /** Undefined in a process that gives no turns itself. */
  readonly worker?: Pick<Worker, 'internals' | 'places' | 'turns' | 'takes'>
  readonly onOpened: (queue: string) => void
  readonly onDelayed: (turn: string, waitMs: number) => void
  readonly onError: (error: unknown) => void
}

export type Waker = {
  wake(process: Process, options: WakeOptions, schedule?: string): Promise<void>
  /** Where this worker takes the queue, drives the kind and has a place. */
  offer(queue: string, kind: string): Place | undefined
  start(process: Process, turn: number, fence: number, queue: string, place: Place): void
}

/** Without word of the commit: when to look for the turn. The last one is left to the queue's own clock. */
const LOOK_AFTER_MS = [2, 6, 15, 40] as const

export function openWaker(
  db: Db,
  { specOf, kindOf, executorId, worker, onOpened, onDelayed, onError }: WakerOptions,
): Waker {
  function offer(queue: string, kind: string): Place | undefined {
    if (!worker?.internals.canStart || !worker.takes(queue) || !kindOf(kind)) return undefined
    const release = worker.places.reserve(queue)
    return release && { owner: randomUUID(), release }
  }

  function start(process: Process, turn: number, fence: number, queue: string, { owner, release }: Place): void {
    const name = turnName(process, turn)
    worker?.turns.expect(name, { fence, attempt: 1 })
    const starting = worker?.internals.start({ name, args: [process.kind, process.id, turn, queue], owner })
    starting
      ?.catch((error: unknown) => {
        worker?.turns.forget(name)
        onError(error)
      })
      // By now the body has a place of its own.
      .finally(release)
  }

  function tell(
    process: Process,
    { outcome, turn, fence, wait_ms }: Woken,
    queue: string,
    place: Place | undefined,
  ): void {
    if (outcome === 'started' && place) return start(process, Number(turn), Number(fence), queue, place)
    if (outcome === 'delayed') onDelayed(turnName(process, Number(turn)), wait_ms)
    if (outcome === 'opened' || outcome === 'hastened') onOpened(queue)
  }

  function resolve({ kind }: Process, { queue: named, priority, partition }: WakeOptions) {
    const options = kindOf(kind)?.options ?? {}
    const queue = named ?? options.queue ?? DEFAULT_QUEUE
    const spec = specOf(queue)
    if (!spec) throw new KernelFault('runtime.queue.unknown', `no queue is called ${queue}`, { queue })
    if (spec.partition && partition === undefined) {
      throw new KernelFault('runtime.wake.partition', `the queue ${queue} needs a partition`, { queue })
    }
    const moves = named !== undefined || priority !== undefined || partition !== undefined
    return {
      queue,
      priority: priority ?? options.priority ?? spec.priority ?? 0,
      partition: spec.partition ? partition : undefined,
      moves,
    }
  }

  return {
    offer,
    start,
    async wake(process, options, schedule) {
      checkProcess(process)
      checkWake(options)
      const { queue, priority, partition, moves } = resolve(process, options)
      const { tx, delayMs = 0 } = options
      // Without word of the commit nobody could tell a started turn from one that was rolled back.
      const canStart = delayMs === 0 && (tx === undefined || tx.afterCommit !== undefined)
      const place = canStart ? offer(queue, process.kind) : undefined
      const where = [
        queue,
        priority,
        partition ?? null,
        moves,
        schedule ?? null,
        place ? executorId() : null,
        place?.owner ?? null,
      ]
      const row = await (tx ? sqlOf(tx) : db)
        .run(wakeProcess, [process.kind, process.id, delayMs, ...where])
        .then(([woken]) => woken)
        .catch((error: unknown) => {
          place?.release()
          throw error
        })
      if (!row || row.outcome !== 'started') place?.release()
      if (!row) return
      if (tx === undefined) tell(process, row, queue, place)
      else if (tx.afterCommit) {
        tx.afterCommit(() => tell(process, row, queue, place))
        tx.afterRollback?.(() => place?.release())
      } else if (row.outcome === 'delayed') tell(process, row, queue, undefined)
      else for (const ms of LOOK_AFTER_MS) setTimeout(() => tell(process, row, queue, undefined), ms).unref()
    },
  }
}

/** The port knows a transaction only by its mark; here it has to be one of the store. */
export function sqlOf(tx: JoinableTx): Sql {
  if (typeof (tx as Partial<Sql>).run === 'function') return tx as JoinableTx & Sql
  throw new KernelFault('runtime.wake.tx', 'the transaction is not one of the store')
}
