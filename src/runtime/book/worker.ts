/** A process that runs turns: the carrier, the lease, the reaper and the relay, opened and closed together. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { DEFAULT_PER_WORKER, type QueueSpec } from '#runtime'
import type { Db } from '#store'
import type { Carrier, EngineLog } from './carrier.ts'
import { withLaunchLock } from './install.ts'
import { type Life, openLife } from './life.ts'
import { openReaper } from './reaper.ts'
import { openRelay, type Relay } from './relay.ts'
import { type Kind, openTurnRunner, type TurnRunner } from './turn-runner.ts'
import type { Watch } from './watch.ts'

export type WorkerTimes = {
  /** The others declare a worker dead after this time without a heartbeat; it sends four heartbeats in that time. */
  readonly leaseMs: number
  readonly reapMs: number
  readonly sweepMs: number
}

export const defaultTimes: WorkerTimes = { leaseMs: 3_000, reapMs: 400, sweepMs: 250 }

type WorkerOptions = {
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
  readonly log: EngineLog
}

export type Worker = {
  readonly executorId: string
  readonly slots: Slots
  readonly turns: TurnRunner
  /** Returns whether it takes turns from this queue. */
  takes(queue: string): boolean
  /** Reserves a slot for a turn of this kind that starts here; undefined when only the queue can decide. */
  offerSlot(queue: string, kind: string): (() => void) | undefined
  /** Checks the queue for due turns. */
  nudge(queue: string): void
  /** Checks all queues for due turns. */
  sweep(): void
  defineQueue(name: string, spec: QueueSpec): Promise<void>
  /** With `drainMs` undefined it ends as a crash would. */
  close(drainMs: number | undefined): Promise<void>
}

export async function openWorker(db: Db, options: WorkerOptions): Promise<Worker> {
  const { book, carrier, times, queues, only, kinds, startsHere, onOpened, onDelayed, log } = options
  const executorId = `${hostname()}-${process.pid}-${randomUUID()}`
  const kindOf = (kind: string) => kinds.get(kind)
  const specOf = (queue: string) => queues.get(queue)
  const takes = (queue: string) => only === undefined || only.includes(queue)
  const taken = () => new Map([...queues].filter(([queue]) => takes(queue)))
  const onError = (error: unknown) => log('warn', error instanceof Error ? error.message : String(error))
  const slots = openSlots(specOf)
  const offerSlot = (queue: string, kind: string) =>
    startsHere && takes(queue) && kinds.has(kind) ? slots.reserveSlot(queue) : undefined
  const turns = openTurnRunner(db, { executorId, kindOf, slots, offerSlot, onOpened, onDelayed, onError })
  const watches: Watch[] = []
  let relay: Relay | undefined
  let life: Life | undefined
  let isOpened = false

  async function close(drainMs: number | undefined): Promise<void> {
    slots.close()
    await relay?.close()
    const isDrained = drainMs !== undefined && (await within(drainMs, turns.drained()))
    turns.loseAll()
    // Turns that are left never end, as after a crash.
    if (!isDrained) turns.halt()
    await Promise.all(watches.map((watch) => watch.close()))
    // The engine still has to record the turns that have ended. One that it delivers meanwhile is given back.
    if (isOpened) await carrier.close(isDrained ? Math.max(1_000, drainMs) : undefined)
    turns.halt()
    await life?.close({ quietly: drainMs === undefined })
  }

  try {
    // The worker proves that it is alive before it holds a turn; otherwise the others would take the turn over.
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
    const sweep = () => relay?.sweep()
    return { executorId, slots, turns, takes, offerSlot, nudge, sweep, defineQueue, close }
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

type Slots = {
  /** Returns how many more turns of the queue fit. */
  free(queue: string): number
  /** True when other workers count against the queue's limits too: only the book knows whether a turn fits. */
  isShared(queue: string): boolean
  /** Records that turns wait without a slot: the next turn that ends triggers a hand-over. */
  want(queue: string): void
  /** Reserves a slot for a turn that starts in this process; undefined when only the queue can decide. */
  reserveSlot(queue: string): (() => void) | undefined
  /** Reserves a slot for a turn that is being delivered to this worker, until it arrives or `ms` have passed. */
  hold(queue: string, ms: number): () => void
  /** Waits for a slot up to the time limit; returns false without one. */
  admit(queue: string, ms: number): Promise<boolean>
  enter(queue: string): void
  /** Returns true when turns may be waiting for the slot. */
  leave(queue: string): boolean
  /** From now on no turn fits. */
  close(): void
}

/** An unused reservation, such as that of a transaction without an end hook, expires after this time. */
const RESERVED_MS = 15_000

/** Counts the running turns of each queue in this worker and decides whether one more may start without asking the queue. */
function openSlots(specOf: (queue: string) => QueueSpec | undefined): Slots {
  const taken = new Map<string, number>()
  const wanted = new Set<string>()
  const waiting = new Map<string, Set<() => void>>()
  let isClosed = false
  const countOf = (queue: string) => taken.get(queue) ?? 0
  const add = (queue: string, count: number) => void taken.set(queue, countOf(queue) + count)
  const free = (queue: string) => (isClosed ? 0 : (specOf(queue)?.perWorker ?? DEFAULT_PER_WORKER) - countOf(queue))

  function isShared(queue: string): boolean {
    const { concurrency, rate, partition } = specOf(queue) ?? {}
    return concurrency !== undefined || rate !== undefined || partition !== undefined
  }

  function giveBack(queue: string): void {
    add(queue, -1)
    const [next] = waiting.get(queue) ?? []
    next?.()
  }

  function hold(queue: string, ms: number): () => void {
    let isHeld = true
    add(queue, 1)
    const release = () => {
      clearTimeout(timer)
      if (isHeld) giveBack(queue)
      isHeld = false
    }
    const timer = setTimeout(release, ms)
    timer.unref()
    return release
  }

  return {
    free,
    isShared,
    want: (queue) => void wanted.add(queue),
    reserveSlot(queue) {
      // While turns wait in the queue, a new one must queue behind them.
      if (isShared(queue) || wanted.has(queue)) return undefined
      if (free(queue) <= 0) {
        wanted.add(queue)
        return undefined
      }
      return hold(queue, RESERVED_MS)
    },
    hold,
    async admit(queue, ms) {
      const deadline = performance.now() + ms
      for (;;) {
        if (free(queue) > 0) {
          add(queue, 1)
          return true
        }
        const left = deadline - performance.now()
        if (left <= 0 || isClosed) return false
        await new Promise<void>((resolve) => {
          const line = waiting.get(queue) ?? new Set()
          waiting.set(queue, line)
          const go = () => {
            clearTimeout(timer)
            line.delete(go)
            resolve()
          }
          const timer = setTimeout(go, left)
          line.add(go)
        })
      }
    },
    enter: (queue) => add(queue, 1),
    leave(queue) {
      giveBack(queue)
      return wanted.delete(queue) || isShared(queue)
    },
    close() {
      isClosed = true
      for (const line of waiting.values()) for (const go of line) go()
    },
  }
}
