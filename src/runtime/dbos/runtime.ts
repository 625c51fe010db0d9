/** The default runtime: turns on DBOS, in the same Postgres as everything else. */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import {
  decideQueue,
  decideQueueNames,
  DEFAULT_QUEUE,
  type QueueSpec,
  type Runtime,
  SCHEDULE_KIND,
  semanticQueues,
} from '#runtime'
import type { Db } from '#store'
import { openAnnouncer } from './announcer.ts'
import { openDueTimers } from './due-timers.ts'
import { type EngineLog, isEngineTaken } from './engine.ts'
import { openEnginePool } from './engine-pool.ts'
import { install } from './install.ts'
import { abortProcess, findLine, listStuck, resumeProcess } from './process-lines.ts'
import { dbosProfile } from './profile.ts'
import { openScheduleRows } from './schedule-rows.ts'
import type { Kind } from './turns.ts'
import { openWaker, sqlOf } from './waker.ts'
import { defaultTimes, openWorker, type Worker, type WorkerTimes } from './worker.ts'

export type DbosOptions = {
  /** The service's database; the adapter opens connections of its own to the same address, with the rights of its login. */
  readonly db: Db
  /** False for a process that only wakes. */
  readonly works?: boolean
  /** The queues whose turns this worker takes; all. */
  readonly only?: readonly string[]
  /** Over the defaults of the eight queues. */
  readonly queues?: Readonly<Record<string, QueueSpec>>
  readonly times?: Partial<WorkerTimes>
  readonly poolMax?: number
  readonly log?: EngineLog
  /** `avoid` keeps to the engine's public interface. */
  readonly internals?: 'use' | 'avoid'
  /** How far the clock of the schedules is ahead, for tests. */
  readonly scheduleAheadMs?: () => number
  readonly onStatement?: (text: string) => void
}

export type DbosRuntime = Runtime & {
  /** Ends this worker as a crash would: nothing is finished, given back or told. */
  halt(): Promise<void>
  /** The name under which this worker holds its turns; undefined while it is not open. */
  readonly executorId: string | undefined
}

const DRAIN_MS = 10_000
const PROOF = 'runtime_proof'
const PROOF_MS = 30_000

export function createDbosRuntime(options: DbosOptions): DbosRuntime {
  const { db, works = true, only, times = {}, log = () => {}, internals = 'use', scheduleAheadMs = () => 0 } = options
  const kinds = new Map<string, Kind>()
  const queues = new Map<string, QueueSpec>(Object.entries({ ...semanticQueues, ...options.queues }))
  const onError = (error: unknown) => log('warn', error instanceof Error ? error.message : String(error))
  let opened: Awaited<ReturnType<typeof start>> | undefined
  let ending: Promise<void> | undefined

  function current() {
    if (opened) return opened
    throw new KernelFault('runtime.closed', 'the runtime is not open')
  }

  async function start() {
    const pool = openEnginePool(db, {
      ...(options.poolMax === undefined ? {} : { poolMax: options.poolMax }),
      ...(options.onStatement ? { onStatement: options.onStatement } : {}),
      onConnectionError: onError,
    })
    const announcer = openAnnouncer(pool, onError)
    let worker: Worker | undefined
    const onOpened = (queue: string) => {
      worker?.nudge(queue)
      // What this worker has no place for, or has no business with, is for the others to hear of.
      if (!worker || worker.places.free(queue) <= 0 || !worker.takes(queue)) announcer.announce(queue)
    }
    const timers = openDueTimers(pool, onOpened, onError)
    const kindOf = (kind: string) => kinds.get(kind)
    const makeWaker = () =>
      openWaker(pool, {
        specOf: (queue) => queues.get(queue),
        kindOf,
        executorId: () => worker?.executorId ?? '',
        ...(worker ? { worker } : {}),
        onOpened,
        onDelayed: timers.plan,
        onError,
      })
    let waker = makeWaker()
    const schedules = openScheduleRows(pool, () => waker, scheduleAheadMs)
    const end = async (drainMs: number | undefined) => {
      timers.close()
      announcer.close()
      await worker?.close(drainMs)
      await pool.close()
    }
    try {
      if (works) {
        const link = {
          offerOwner: (queue: string, kind: string) => waker.offer(queue, kind),
          onStarted: (...args: Parameters<typeof waker.start>) => waker.start(...args),
          onOpened,
          onDelayed: timers.plan,
        }
        const mine = { times: { ...defaultTimes, ...times }, mode: internals, queues, kinds, link, log }
        worker = await openWorker(pool, { ...mine, ...(only ? { only } : {}) })
        waker = makeWaker()
      } else await install(pool, log, internals)
      return { pool, wake: waker.wake, schedules, worker, end }
    } catch (error) {
      await end(undefined)
      throw error
    }
  }

  /** A turn of our own, there and back. */
  async function prove(): Promise<void> {
    const { worker, wake, pool } = current()
    if (!worker) return
    const id = worker.executorId
    const deadline = performance.now() + PROOF_MS
    await wake({ kind: PROOF, id }, { queue: only?.[0] ?? DEFAULT_QUEUE })
    for (let waitMs = 1; performance.now() < deadline; waitMs = Math.min(50, waitMs * 2)) {
      if ((await findLine(pool, { kind: PROOF, id })) === undefined) return
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
    throw new Error('the engine gave no turn in 30 s')
  }

  /** Turns that are still under way may go on waking others until they have ended. */
  async function end(drainMs: number | undefined): Promise<void> {
    ending ??= (async () => {
      await opened?.end(drainMs)
      opened = undefined
    })().finally(() => {
      ending = undefined
    })
    await ending
  }

  return {
    profile: dbosProfile,
    get executorId() {
      return opened?.worker?.executorId
    },
    register(kind, drive, kindOptions = {}) {
      if (opened) throw new KernelFault('runtime.register.late', 'kinds are registered before the runtime opens')
      kinds.set(kind, { drive, options: kindOptions })
    },
    async defineQueue(name, spec) {
      const decision = decideQueue(name, spec)
      if (!decision.ok) return decision
      queues.set(name, spec)
      await opened?.worker?.defineQueue(name, spec)
      return accept(undefined)
    },
    async open(): Promise<Decision<void>> {
      const invalid = [...queues].map(([name, spec]) => decideQueue(name, spec)).find((decision) => !decision.ok)
      if (invalid && !invalid.ok) return invalid
      const named = [...[...kinds.values()].flatMap(({ options: { queue } }) => queue ?? []), ...(only ?? [])]
      const known = decideQueueNames(new Set(queues.keys()), named)
      if (!known.ok) return known
      if (works && isEngineTaken()) return unavailable('another runtime is open in this process')
      kinds.set(SCHEDULE_KIND, {
        drive: (name) => current().schedules.drive(name),
        options: { queue: 'scheduled_maintenance' },
      })
      kinds.set(PROOF, { drive: async () => ({ t: 'done' }), options: {} })
      try {
        opened = await start()
        await prove()
        return accept(undefined)
      } catch (error) {
        await end(undefined).catch(onError)
        return unavailable(error instanceof Error ? error.message : String(error))
      }
    },
    close: ({ drainMs = DRAIN_MS } = {}) => end(drainMs),
    halt: () => end(undefined),
    wake: async (process, wakeOptions = {}) => current().wake(process, wakeOptions),
    offerPlace(queue) {
      const worker = opened?.worker
      const release = worker?.takes(queue) ? worker.places.reserve(queue) : undefined
      if (!worker || !release) return undefined
      const begin = () => {
        worker.places.enter(queue)
        release()
        return () => {
          if (worker.places.leave(queue)) worker.nudge(queue)
        }
      }
      return { begin, release }
    },
    describe: async (process) => findLine(current().pool, process),
    async schedule(spec) {
      if (works && !kinds.has(spec.kind)) {
        return refuse('runtime.kind.unknown', `nothing drives processes of kind ${spec.kind}`, { path: 'kind' })
      }
      const known = decideQueueNames(new Set(queues.keys()), spec.queue === undefined ? [] : [spec.queue])
      return known.ok ? current().schedules.save(spec) : known
    },
    unschedule: async (name) => current().schedules.delete(name),
    describeSchedule: async (name) => current().schedules.find(name),
    stuck: async ({ limit = 100 } = {}) => listStuck(current().pool, limit),
    async resume(process, { tx } = {}) {
      const { pool, worker } = current()
      const queue = await resumeProcess(tx ? sqlOf(tx) : pool, process)
      if (queue === undefined) return refuse('runtime.process.not_stuck', `${process.kind} ${process.id} is not stuck`)
      // Without word of the commit the queue's own clock finds it.
      if (tx) tx.afterCommit?.(() => worker?.nudge(queue))
      else worker?.nudge(queue)
      return accept(undefined)
    },
    async abort(process, reason, { tx, queue } = {}) {
      const { pool, worker } = current()
      await abortProcess(tx ? sqlOf(tx) : pool, process, reason, queue)
      // Turns of other workers, and of this one without word of the commit, are told with the next beat.
      if (tx) tx.afterCommit?.(() => void worker?.turns.checkOwnership().catch(onError))
      else await worker?.turns.checkOwnership()
    },
  }
}

function unavailable(reason: string): Decision<never> {
  return refuse('runtime.engine.unavailable', `the runtime did not open: ${reason}`, { path: 'runtime' })
}
