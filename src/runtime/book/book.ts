/** Implements the runtime port: the book in our Postgres, and a carrier that delivers due turns to workers. */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import {
  checkProcess,
  decideQueue,
  decideQueueNames,
  DEFAULT_QUEUE,
  type Process,
  type ProcessView,
  type QueueSpec,
  type Runtime,
  type RuntimeHealth,
  SCHEDULE_KIND,
  semanticQueues,
} from '#runtime'
import type { Db } from '#store'
import type { Carrier, EngineLog } from './carrier.ts'
import { installBook } from './install.ts'
import { openAnnouncer, openDueTimers } from './notices.ts'
import { openBookPool } from './pool.ts'
import { recordRepair, repairTurnTimes } from './repair-times.ts'
import { openScheduleRows } from './schedule-rows.ts'
import { abortProcess, findProcess, listStuck, readHealth, resumeProcess } from './statements.ts'
import type { Kind } from './turn-runner.ts'
import { openWaker, sqlOf, type Wake } from './waker.ts'
import { defaultTimes, openWorker, type Worker, type WorkerTimes } from './worker.ts'

export type BookOptions = {
  /** The service's database; the book opens its own connections to the same address, with the rights of the login. */
  readonly db: Db
  readonly carrier: Carrier
  /** False in a process that only wakes; it never uses the engine. */
  readonly works?: boolean
  /** False sends every turn through the engine, even when the waking process has a free slot. */
  readonly startsHere?: boolean
  /** The queues that this worker takes turns from; default all. */
  readonly only?: readonly string[]
  /** Overrides the defaults of the eight queues. */
  readonly queues?: Readonly<Record<string, QueueSpec>>
  readonly times?: Partial<WorkerTimes>
  readonly poolMax?: number
  readonly log?: EngineLog
  /** How far the schedules' clock is ahead, for tests. */
  readonly scheduleAheadMs?: () => number
  readonly onStatement?: (text: string) => void
}

export type BookRuntime = Runtime & {
  /** Ends this worker as a crash would: it finishes, returns and announces nothing. */
  halt(): Promise<void>
  /** The name under which this worker holds its turns; undefined while it is closed. */
  readonly executorId: string | undefined
}

const DRAIN_MS = 10_000
/** The kind of the test turn at start-up, and its own queue: a backlog elsewhere must not delay it. */
const PROOF = 'runtime_proof'
const PROOF_MS = 30_000
const REASON_LENGTH_MAX = 2_000
/** A due turn that waits longer than this makes the health check fail: no worker, no engine, or too few workers. */
const WAITING_MAX_MS = 60_000

export function createRuntime(options: BookOptions): BookRuntime {
  const { db, carrier, works = true, startsHere = true, only, times = {}, log = () => {} } = options
  const { scheduleAheadMs = () => 0 } = options
  const kinds = new Map<string, Kind>()
  const queues = new Map<string, QueueSpec>(Object.entries({ ...semanticQueues, ...options.queues, [PROOF]: {} }))
  const queueNames = () => new Set([...queues.keys()].filter((name) => name !== PROOF))
  const onError = (error: unknown) => log('warn', error instanceof Error ? error.message : String(error))
  let opened: Awaited<ReturnType<typeof start>> | undefined
  let ending: Promise<void> | undefined

  function current() {
    if (opened) return opened
    throw new KernelFault('runtime.closed', 'The runtime is not open.')
  }

  async function start() {
    const pool = openBookPool(db, {
      ...(options.poolMax === undefined ? {} : { poolMax: options.poolMax }),
      ...(options.onStatement ? { onStatement: options.onStatement } : {}),
      onConnectionError: onError,
    })
    const announcer = openAnnouncer(pool, onError)
    let worker: Worker | undefined
    const onOpened = (queue: string) => {
      worker?.nudge(queue)
      // Other workers need a notice of turns that this one has no slot for or does not take.
      if (!worker || worker.slots.free(queue) <= 0 || !worker.takes(queue)) announcer.announce(queue)
    }
    const onElsewhere = () => {
      worker?.sweep()
      // Empty: every worker looks into all its queues.
      announcer.announce('')
    }
    const timers = openDueTimers(onOpened)
    const end = async (drainMs: number | undefined) => {
      await worker?.close(drainMs)
      // Afterwards, because a turn that is given back during the close plans another.
      timers.close()
      announcer.close()
      await pool.close()
    }
    try {
      const book = await installBook(pool, works)
      const tellers = { onOpened, onDelayed: timers.plan }
      if (works) {
        const mine = { book, carrier, times: { ...defaultTimes, ...times }, queues, kinds, startsHere, log, ...tellers }
        worker = await openWorker(pool, { ...mine, ...(only ? { only: [...only, PROOF] } : {}) })
      }
      const wake = openWaker(pool, {
        specOf: (queue) => queues.get(queue),
        kindOf: (kind) => kinds.get(kind),
        ...(worker ? { worker } : {}),
        onElsewhere,
        ...tellers,
      })
      return { pool, wake, schedules: openScheduleRows(pool, wake, scheduleAheadMs), worker, end }
    } catch (error) {
      await end(undefined)
      throw error
    }
  }

  async function describe({ kind, id }: Process): Promise<ProcessView | undefined> {
    const [row] = await current().pool.run(findProcess, [kind, id])
    return row && { ...row, turn: Number(row.turn) }
  }

  /** Sends a test turn through the engine and waits for its end. */
  async function prove(wake: Wake): Promise<void> {
    const { worker } = current()
    if (!worker) return
    const id = worker.executorId
    const deadline = performance.now() + PROOF_MS
    await wake({ kind: PROOF, id }, { queue: PROOF }, { startsHere: false })
    for (let waitMs = 1; performance.now() < deadline; waitMs = Math.min(50, waitMs * 2)) {
      if ((await describe({ kind: PROOF, id })) === undefined) return
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
    throw new Error('the engine delivered no turn within 30 s')
  }

  /** Running turns may wake other processes until they have ended. */
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
    profile: carrier.profile,
    get executorId() {
      return opened?.worker?.executorId
    },
    register(kind, drive, kindOptions = {}) {
      if (opened) throw new KernelFault('runtime.register.late', 'Kinds must be registered before the runtime opens.')
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
      const known = decideQueueNames(queueNames(), named)
      if (!known.ok) return known
      if (works && carrier.unavailable !== undefined) return unavailable(carrier.unavailable)
      kinds.set(SCHEDULE_KIND, {
        drive: (name) => current().schedules.drive(name),
        options: { queue: 'scheduled_maintenance' },
      })
      kinds.set(PROOF, { drive: async () => ({ t: 'done' }), options: {} })
      try {
        opened = await start()
        await prove(opened.wake)
        return accept(undefined)
      } catch (error) {
        // Turns of other processes may be running by now; closing like a crash would cost each of them an attempt.
        await end(DRAIN_MS).catch(onError)
        return unavailable(error instanceof Error ? error.message : String(error))
      }
    },
    close: ({ drainMs = DRAIN_MS } = {}) => end(drainMs),
    halt: () => end(undefined),
    wake: async (process, wakeOptions = {}) => current().wake(process, wakeOptions),
    reserveSlot(queue) {
      const worker = opened?.worker
      const release = worker?.takes(queue) ? worker.slots.reserveSlot(queue) : undefined
      if (!worker || !release) return undefined
      const begin = () => {
        worker.slots.enter(queue)
        release()
        return () => {
          if (worker.slots.leave(queue)) worker.nudge(queue)
        }
      }
      return { begin, release }
    },
    describe,
    async health(): Promise<RuntimeHealth> {
      const { pool, worker } = current()
      const [[row], isEngineReachable] = await Promise.all([
        pool.run(readHealth, [[...queueNames()]]),
        worker ? carrier.ready().catch(() => false) : null,
      ])
      const { workers, waiting_ms: waitingMs } = row ?? { workers: 0, waiting_ms: null }
      const isMoving = workers > 0 && (waitingMs ?? 0) <= WAITING_MAX_MS
      return {
        engine: carrier.profile.engine,
        ok: isMoving && isEngineReachable !== false,
        isEngineReachable,
        waitingMs,
        workers,
      }
    },
    async repairTimes(also = []) {
      const { pool, schedules } = current()
      const turns = await repairTurnTimes(pool, times.leaseMs ?? defaultTimes.leaseMs)
      const repaired = [...(await schedules.repair()), ...turns, ...also]
      await recordRepair(pool, repaired)
      return repaired
    },
    async schedule(spec) {
      if (works && !kinds.has(spec.kind)) {
        return refuse('runtime.kind.unknown', `No driver is registered for processes of kind ${spec.kind}.`, {
          path: 'kind',
        })
      }
      const known = decideQueueNames(queueNames(), spec.queue === undefined ? [] : [spec.queue])
      return known.ok ? current().schedules.save(spec) : known
    },
    unschedule: async (name) => current().schedules.delete(name),
    describeSchedule: async (name) => current().schedules.find(name),
    stuck: async ({ limit = 100 } = {}) => current().pool.run(listStuck, [limit]),
    async resume(process, { tx } = {}) {
      const { pool, worker } = current()
      const [row] = await (tx ? sqlOf(tx) : pool).run(resumeProcess, [process.kind, process.id])
      if (!row) return refuse('runtime.process.not_stuck', `The process ${process.kind} ${process.id} is not stuck.`)
      // Without a commit hook the next poll finds it.
      if (tx) tx.afterCommit?.(() => worker?.nudge(row.queue))
      else worker?.nudge(row.queue)
      return accept(undefined)
    },
    async abort(process, reason, { tx, queue = DEFAULT_QUEUE } = {}) {
      const { pool, worker } = current()
      checkProcess(process)
      const detail = reason.slice(0, REASON_LENGTH_MAX)
      await (tx ? sqlOf(tx) : pool).run(abortProcess, [process.kind, process.id, detail, queue])
      // Other workers, and this one without a commit hook, stop their turns at the next heartbeat.
      if (tx) tx.afterCommit?.(() => void worker?.turns.checkOwnership().catch(onError))
      else await worker?.turns.checkOwnership()
    },
  }
}

function unavailable(reason: string): Decision<never> {
  return refuse('runtime.engine.unavailable', `The runtime did not open: ${reason}.`, { path: 'runtime' })
}
