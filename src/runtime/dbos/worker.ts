/** A process that gives turns: the engine, proof of life, the reaper, the dispatcher and retention, opened and closed together. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { WorkflowQueue } from '@dbos-inc/dbos-sdk'
import type { QueueSpec } from '#runtime'
import type { Db } from '#store'
import { claimFrom } from './claims.ts'
import { type Dispatcher, openDispatcher } from './dispatcher.ts'
import { DEFAULT_PER_WORKER, type EngineLog, launchEngine, registerEngineQueue, shutDownEngine } from './engine.ts'
import { install } from './install.ts'
import { type Internals, openInternals } from './internals.ts'
import { type Life, openLife } from './life.ts'
import { openPlaces, type Places } from './places.ts'
import { openReaper } from './reaper.ts'
import { openRetention } from './retention.ts'
import { type Kind, openTurns, type Turns, type TurnsOptions } from './turns.ts'
import { openWatch, type Watch } from './watch.ts'

export type WorkerTimes = {
  /** A worker that is silent for so long is dead to the others; it beats four times in it. */
  readonly leaseMs: number
  readonly reapMs: number
  readonly sweepMs: number
  readonly retainMs: number
  readonly cleanMs: number
}

export const defaultTimes: WorkerTimes = {
  leaseMs: 3_000,
  reapMs: 400,
  sweepMs: 250,
  retainMs: 900_000,
  cleanMs: 60_000,
}

export type WorkerOptions = {
  readonly times: WorkerTimes
  readonly mode: 'use' | 'avoid'
  readonly queues: ReadonlyMap<string, QueueSpec>
  /** The queues this worker takes turns from; all of them unless said otherwise. */
  readonly only?: readonly string[]
  readonly kinds: ReadonlyMap<string, Kind>
  readonly link: Pick<TurnsOptions, 'offerOwner' | 'onStarted' | 'onOpened' | 'onDelayed'>
  readonly log: EngineLog
}

export type Worker = {
  readonly executorId: string
  readonly internals: Internals
  readonly places: Places
  readonly turns: Turns
  /** Whether it takes turns from this queue. */
  takes(queue: string): boolean
  nudge(queue: string): void
  defineQueue(name: string, spec: QueueSpec): Promise<void>
  /** `drainMs` undefined: as a crash would end it. */
  close(drainMs: number | undefined): Promise<void>
}

/** What the engine has nothing more to do for although it is open; nothing should ever be found. */
const LOST_AFTER_MS = 30_000
const LOOK_AGAIN_MS = [4, 15] as const

export async function openWorker(db: Db, options: WorkerOptions): Promise<Worker> {
  const { times, mode, queues, only, kinds, link, log } = options
  const kindOf = (kind: string) => kinds.get(kind)
  const attemptsMax = () =>
    Object.fromEntries(
      [...kinds].flatMap(
        ([
          kind,
          {
            options: { attemptsMax: most },
          },
        ]) => (most === undefined ? [] : [[kind, most]]),
      ),
    )
  const executorId = `${hostname()}-${process.pid}-${randomUUID()}`
  const onError = (error: unknown) => log('warn', error instanceof Error ? error.message : String(error))
  const places = openPlaces((queue) => queues.get(queue), DEFAULT_PER_WORKER)
  const turns = openTurns(db, { kindOf, places, executorId: () => executorId, ...link, onError })
  const engineQueues = new Map<string, WorkflowQueue>()
  const takes = (queue: string) => only === undefined || only.includes(queue)
  const watches: Watch[] = []
  let dispatcher: Dispatcher | undefined
  let life: Life | undefined
  let isLaunched = false

  async function close(drainMs: number | undefined): Promise<void> {
    places.close()
    await dispatcher?.close()
    const isDrained = drainMs !== undefined && (await within(drainMs, turns.drained()))
    turns.loseAll()
    turns.halt()
    await Promise.all(watches.map((watch) => watch.close()))
    // The engine still has to write down what has ended; what has not ended never will.
    if (isLaunched) await shutDownEngine(isDrained ? Math.max(1_000, drainMs) : undefined)
    await life?.close({ quietly: drainMs === undefined })
  }

  try {
    await install(db, log, mode)
    // Alive before it can hold a turn: the others would take it away again.
    life = await openLife(db, {
      executorId,
      leaseMs: times.leaseMs,
      onLost: () => turns.loseAll(),
      onBeat: () => turns.checkOwnership(),
      onNotice: (queue) => (queue === '' ? dispatcher?.sweep() : takes(queue) && dispatcher?.nudge(queue)),
      onError,
    })
    const polls = mode === 'avoid' ? [...queues.keys()].filter(takes) : undefined
    isLaunched = true
    await launchEngine(db, { executorId, body: (...args) => turns.run(...args), log, ...(polls ? { polls } : {}) })
    for (const [name, spec] of queues) engineQueues.set(name, await registerEngineQueue(name, spec))
    const internals = openInternals(mode)
    dispatcher = internals.canPoll ? openPolls(internals) : undefined
    const recover = (dead: string) => internals.recover(dead)
    const onRecovered = (dead: string) => {
      log('info', `took over the turns of ${dead}`)
      dispatcher?.sweep()
    }
    watches.push(
      openReaper(db, {
        executorId,
        everyMs: times.reapMs,
        recover,
        isMine: (name) => turns.isUnderWay(name),
        onRecovered,
        onError,
      }),
      openRetention(db, { keepMs: times.retainMs, everyMs: times.cleanMs, onError }),
      openWatch(LOST_AFTER_MS, reopenLost, onError),
    )
    return { executorId, internals, places, turns, takes, nudge, defineQueue, close }
  } catch (error) {
    await close(undefined).catch(onError)
    throw error
  }

  function openPolls(internals: Internals): Dispatcher {
    return openDispatcher(db, {
      sweepMs: times.sweepMs,
      queues: () => [...engineQueues.keys()].filter(takes),
      async poll(name) {
        const queue = engineQueues.get(name)
        if (!queue || !takes(name)) return false
        if (internals.canStart && !places.isShared(name)) {
          await claimFrom(db, name, { executorId, internals, places, turns, attemptsMax, onError })
          return false
        }
        return internals.poll(queue)
      },
      onError,
    })
  }

  function nudge(queue: string): void {
    dispatcher?.nudge(queue)
    // A place in a shared queue is free for the engine once the end of the turn is written down, a moment after the turn.
    if (places.isShared(queue)) for (const ms of LOOK_AGAIN_MS) setTimeout(() => dispatcher?.nudge(queue), ms).unref()
  }

  async function defineQueue(name: string, spec: QueueSpec): Promise<void> {
    engineQueues.set(name, await registerEngineQueue(name, spec))
    dispatcher?.nudge(name)
  }

  async function reopenLost(): Promise<void> {
    const [row] = await db.query<{ count: string }>('select runtime.reopen_lost($1, 100) as count', [LOST_AFTER_MS])
    if (Number(row?.count ?? 0) === 0) return
    log('error', `reopened ${row?.count} turns that nobody was going to give`)
    dispatcher?.sweep()
  }
}

/** False when the time is over first. */
async function within(ms: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms)
  })
  return Promise.race([work.then(() => true), late]).finally(() => clearTimeout(timer))
}
