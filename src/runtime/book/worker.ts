/** A process that runs turns: the carrier, the lease, the reaper and the relay, opened and closed together. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { QueueSpec } from '#runtime'
import type { Db } from '#store'
import type { Carrier, EngineLog } from './carrier.ts'
import { withLaunchLock } from './install.ts'
import { type Life, openLife } from './life.ts'
import { openReaper } from './reaper.ts'
import { openRelay, type Relay } from './relay.ts'
import { openSlots, type Slots } from './slots.ts'
import { type Kind, openTurns, type Turns } from './turns.ts'
import type { Watch } from './watch.ts'

export type WorkerTimes = {
  /** The others declare a worker dead after this time without a heartbeat; it sends four heartbeats in that time. */
  readonly leaseMs: number
  readonly reapMs: number
  readonly sweepMs: number
}

export const defaultTimes: WorkerTimes = { leaseMs: 3_000, reapMs: 400, sweepMs: 250 }

export type WorkerOptions = {
  readonly book: string
  readonly carrier: Carrier
  readonly times: WorkerTimes
  readonly queues: ReadonlyMap<string, QueueSpec>
  /** The queues this worker takes turns from; default all. */
  readonly only?: readonly string[]
  readonly kinds: ReadonlyMap<string, Kind>
  /** False sends every turn through the engine. */
  readonly startsHere: boolean
  readonly onOpened: (queue: string) => void
  readonly onDelayed: (queue: string, waitMs: number) => void
  /** Called for a turn of a kind that another worker drives. */
  readonly onForeign: (queue: string, waitMs: number) => void
  readonly log: EngineLog
}

export type Worker = {
  readonly executorId: string
  readonly slots: Slots
  readonly turns: Turns
  /** Returns whether it takes turns from this queue. */
  takes(queue: string): boolean
  /** Reserves a slot for a turn of this kind that starts here; undefined when only the queue can decide. */
  offerSlot(queue: string, kind: string): (() => void) | undefined
  /** Checks the queue for due turns. */
  nudge(queue: string): void
  defineQueue(name: string, spec: QueueSpec): Promise<void>
  /** With `drainMs` undefined it ends as a crash would. */
  close(drainMs: number | undefined): Promise<void>
}

export async function openWorker(db: Db, options: WorkerOptions): Promise<Worker> {
  const { book, carrier, times, queues, only, kinds, startsHere, onOpened, onDelayed, onForeign, log } = options
  const executorId = `${hostname()}-${process.pid}-${randomUUID()}`
  const kindOf = (kind: string) => kinds.get(kind)
  const specOf = (queue: string) => queues.get(queue)
  const takes = (queue: string) => only === undefined || only.includes(queue)
  const taken = () => new Map([...queues].filter(([queue]) => takes(queue)))
  const onError = (error: unknown) => log('warn', error instanceof Error ? error.message : String(error))
  const slots = openSlots(specOf)
  const offerSlot = (queue: string, kind: string) =>
    startsHere && takes(queue) && kinds.has(kind) ? slots.reserveSlot(queue) : undefined
  const turns = openTurns(db, { executorId, kindOf, slots, offerSlot, onOpened, onDelayed, onForeign, onError })
  const watches: Watch[] = []
  let relay: Relay | undefined
  let life: Life | undefined
  let isOpened = false

  async function close(drainMs: number | undefined): Promise<void> {
    slots.close()
    await relay?.close()
    const isDrained = drainMs !== undefined && (await within(drainMs, turns.drained()))
    turns.loseAll()
    turns.halt()
    await Promise.all(watches.map((watch) => watch.close()))
    // The engine still has to record the turns that have ended; the others never end.
    if (isOpened) await carrier.close(isDrained ? Math.max(1_000, drainMs) : undefined)
    await life?.close({ quietly: drainMs === undefined })
  }

  try {
    // The worker proves that it is alive before it holds a turn: the others would take the turn away.
    life = await openLife(db, {
      executorId,
      kinds: [...kinds.keys()],
      ...(only ? { queues: only } : {}),
      leaseMs: times.leaseMs,
      onLost: () => turns.loseAll(),
      onBeat: () => turns.checkOwnership(),
      onNotice: (queue) => (queue === '' ? relay?.sweep() : relay?.nudge(queue)),
      onError,
    })
    isOpened = true
    await carrier.open({
      book,
      executorId,
      db,
      queues: taken(),
      freeSlots: slots.free,
      withLaunchLock: (work) => withLaunchLock(db, work),
      deliver: turns.deliver,
      log,
    })
    relay = openRelay(db, {
      carrier,
      executorId,
      kinds: [...kinds.keys()],
      sweepMs: times.sweepMs,
      queues: () => [...taken().keys()],
      takes,
      specOf,
      slots,
      onGiven: ({ name }, release) => turns.expect(name, release),
      onError,
    })
    const onTakenOver = (dead: string, left: readonly string[]) => {
      log('info', `took over the turns of ${dead}`)
      for (const queue of left) onOpened(queue)
    }
    watches.push(openReaper(db, { executorId, everyMs: times.reapMs, turns, onTakenOver, onError }))
    const nudge = (queue: string) => relay?.nudge(queue)
    return { executorId, slots, turns, takes, offerSlot, nudge, defineQueue, close }
  } catch (error) {
    await close(undefined).catch(onError)
    throw error
  }

  async function defineQueue(name: string, spec: QueueSpec): Promise<void> {
    if (takes(name)) await carrier.defineQueue(name, spec)
    relay?.nudge(name)
  }
}

/** Returns false when the time runs out first. */
async function within(ms: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms)
  })
  return Promise.race([work.then(() => true), late]).finally(() => clearTimeout(timer))
}
