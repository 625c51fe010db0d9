/**
 * The reference runtime, for tests only: in memory, on a stopped clock, with every choice from a seed. A test kills its workers;
 * the next worker gets the turns of a dead one.
 */
import type { Random } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { accept, refuse } from '#kernel/refusal'
import {
  checkProcess,
  decideQueue,
  decideQueueNames,
  decideSchedule,
  DEFAULT_QUEUE,
  type JoinableTx,
  type Next,
  nextFiringAt,
  planSchedule,
  type QueueSpec,
  type Runtime,
  type RuntimeProfile,
  SCHEDULE_KIND,
  type ScheduleView,
  semanticQueues,
} from '#runtime'
import { type FakeClock, openFakeClock } from './fake-clock.ts'
import { openLedger } from './ledger.ts'
import { referenceProfile } from './profile.ts'
import { openQueueRoom } from './queue-room.ts'
import { type Kind, openWorkers, type Stranger } from './workers.ts'

export type ReferenceOptions = {
  readonly random: Random
  readonly clock?: FakeClock
  readonly profile?: RuntimeProfile
}

export type ReferenceRuntime = Runtime & {
  readonly clock: FakeClock
  /** Runs until no turn begins or ends; turns that wait for the test stay open. */
  settle(): Promise<void>
  /** Moves the clock forward, from due time to due time. */
  advance(ms: number): Promise<void>
  /** Moves to the next due time; false when there is none. */
  advanceToNext(): Promise<boolean>
  /** Kills the worker with its memory. The next one registers its kinds and opens. */
  crash(): void
  /** Opens another worker. */
  join(stranger: Stranger): void
  readonly turnsBegun: number
}

export function openReferenceRuntime({
  random,
  clock = openFakeClock(),
  profile = referenceProfile,
}: ReferenceOptions): ReferenceRuntime {
  const kinds = new Map<string, Kind>()
  const queues = new Map<string, QueueSpec>(Object.entries(semanticQueues))
  const specOf = (queue: string): QueueSpec => {
    const spec = queues.get(queue)
    if (!spec) throw new KernelFault('runtime.queue.unknown', `There is no queue ${queue}.`)
    return spec
  }
  const room = openQueueRoom(specOf)
  let changes = 0
  const queueOf = (kind: string) => kinds.get(kind)?.options.queue ?? DEFAULT_QUEUE
  const ledger = openLedger(clock.now, queueOf, specOf, () => {
    changes += 1
    workers.pumpSoon()
  })
  const workers = openWorkers({ random, now: clock.now, ledger, room, kinds })

  async function settle(): Promise<void> {
    for (let seen = -1; seen !== changes; ) {
      seen = changes
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  function nextDueAt(): Date | undefined {
    const now = clock.now()
    const due = [...ledger.entries.values()].flatMap(({ row: { state, dueAt, queue } }) => {
      if (state !== 'queued') return []
      return dueAt > now ? [dueAt] : (room.freeAt(queue, now) ?? [])
    })
    return due.toSorted((a, b) => a.getTime() - b.getTime())[0]
  }

  async function moveTo(time: Date): Promise<void> {
    clock.moveTo(time)
    workers.pumpSoon()
    await settle()
  }

  function viewOf(name: string): ScheduleView | undefined {
    const line = ledger.schedules.get(name)
    if (!line) return undefined
    const { spec, lastDueAt, firedCount, missedCount } = line
    return {
      spec,
      lastDueAt,
      nextDueAt: nextFiringAt(line),
      firedCount,
      missedCount,
      openCount: ledger.openFirings(name),
    }
  }

  async function driveSchedule(name: string): Promise<Next> {
    const line = ledger.schedules.get(name)
    if (!line) return { t: 'done' }
    const turn = planSchedule(line, ledger.openFirings(name), clock.now())
    ledger.schedules.set(name, turn.line)
    const { kind, queue } = line.spec
    for (const { id } of turn.fire) ledger.wake({ kind, id }, queue === undefined ? {} : { queue }, name)
    return turn.next
  }

  const runtime: ReferenceRuntime = {
    profile,
    clock,
    get turnsBegun() {
      return workers.begunCount
    },
    settle,
    async advance(ms) {
      const until = new Date(clock.now().getTime() + ms)
      await settle()
      for (let due = nextDueAt(); due && due <= until; due = nextDueAt()) await moveTo(due)
      await moveTo(until)
    },
    async advanceToNext() {
      await settle()
      const due = nextDueAt()
      if (due) await moveTo(due)
      return due !== undefined
    },
    crash() {
      workers.shut()
      workers.abandon()
      kinds.clear()
    },
    join: workers.join,
    register(kind, drive, options = {}) {
      if (workers.isOpen)
        throw new KernelFault('runtime.register.late', 'Kinds must be registered before the runtime opens.')
      kinds.set(kind, { drive, options })
    },
    async defineQueue(name, spec) {
      const decision = decideQueue(name, spec)
      if (!decision.ok) return decision
      queues.set(name, spec)
      workers.pumpSoon()
      return accept(undefined)
    },
    async open() {
      const named = [...kinds.values()].flatMap(({ options }) => options.queue ?? [])
      const known = decideQueueNames(new Set(queues.keys()), named)
      if (!known.ok) return known
      kinds.set(SCHEDULE_KIND, { drive: driveSchedule, options: { queue: 'scheduled_maintenance' } })
      workers.open()
      return accept(undefined)
    },
    async close() {
      workers.shut()
      await settle()
      workers.abandon({ telling: true })
    },
    async wake(process, { tx, ...options } = {}) {
      ledger.check(process, options)
      within(tx, () => ledger.wake(process, options))
    },
    // The seed decides every turn of the simulation.
    reserveSlot: () => undefined,
    describe: async (process) => ledger.describe(process),
    // Its clock is never set back.
    repairTimes: async (also = []) => also,
    health: async () => ({ engine: profile.engine, ok: true, isEngineReachable: true, waitingMs: null, workers: 1 }),
    async schedule(spec) {
      const decision = decideSchedule(spec, clock.now())
      if (!decision.ok) return decision
      if (!kinds.has(spec.kind))
        return refuse('runtime.kind.unknown', `No driver is registered for processes of kind ${spec.kind}.`, {
          path: 'kind',
        })
      const known = decideQueueNames(new Set(queues.keys()), spec.queue === undefined ? [] : [spec.queue])
      if (!known.ok) return known
      const before = ledger.schedules.get(spec.name)
      ledger.schedules.set(spec.name, before ? { ...before, spec } : decision.value)
      ledger.wake({ kind: SCHEDULE_KIND, id: spec.name }, {})
      return accept(viewOf(spec.name) as ScheduleView)
    },
    unschedule: async (name) => ledger.schedules.delete(name),
    describeSchedule: async (name) => viewOf(name),
    stuck: async ({ limit = 100 } = {}) => ledger.stuck(limit),
    async resume(process, { tx } = {}) {
      if (ledger.describe(process)?.state !== 'stuck') {
        return refuse('runtime.process.not_stuck', `The process ${process.kind} ${process.id} is not stuck.`)
      }
      within(tx, () => void ledger.resume(process))
      return accept(undefined)
    },
    async abort(process, reason, { tx, queue } = {}) {
      checkProcess(process)
      within(tx, () => {
        ledger.abort(process, reason, queue)
        workers.lose(process)
      })
    },
  }
  return runtime
}

/** At once, or with the commit that it joins. */
function within(tx: JoinableTx | undefined, work: () => void): void {
  if (!tx) return work()
  if (!tx.afterCommit) throw new KernelFault('reference.wake.tx', 'the transaction is not one of the memory store')
  tx.afterCommit(work)
}
