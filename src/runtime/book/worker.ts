/** A process that gives turns: the carrier, the lease, the reaper and the relay, opened and closed together. */
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
  /** A worker that is silent for so long is dead to the others; it beats four times in it. */
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
  /** The queues this worker takes turns from; all of them unless said otherwise. */
  readonly only?: readonly string[]
  readonly kinds: ReadonlyMap<string, Kind>
  /** False: every turn goes through the engine. */
  readonly startsHere: boolean
  readonly onOpened: (queue: string) => void
  readonly onDelayed: (queue: string, waitMs: number) => void
  /** A turn of a kind that another worker drives. */
  readonly onForeign: (queue: string, waitMs: number) => void
  readonly log: EngineLog
}

export type Worker = {
  readonly executorId: string
  readonly slots: Slots
  readonly turns: Turns
  /** Whether it takes turns from this queue. */
  takes(queue: string): boolean
  /** A slot for a turn of this kind that starts here; undefined where the queue has to decide. */
  offerSlot(queue: string, kind: string): (() => void) | undefined
  /** The queue may have due turns. */
  nudge(queue: string): void
  defineQueue(name: string, spec: QueueSpec): Promise<void>
  /** `drainMs` undefined: as a crash would end it. */
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
    // The engine still has to write down what has ended; what has not ended never will.
    if (isOpened) await carrier.close(isDrained ? Math.max(1_000, drainMs) : undefined)
    await life?.close({ quietly: drainMs === undefined })
  }

  try {
    // Alive before it can hold a turn: the others would take it away again.
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

/** False when the time is over first. */
async function within(ms: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms)
  })
  return Promise.race([work.then(() => true), late]).finally(() => clearTimeout(timer))
}
