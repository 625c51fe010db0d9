/** What survives a crash of the reference runtime: one line per process, the schedules, and the numbers given out. */
import type { Clock } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import {
  bookAbort,
  bookBegin,
  bookEnd,
  bookFailure,
  bookResume,
  bookWake,
  checkProcess,
  checkWake,
  DEFAULT_QUEUE,
  type Failure,
  type Next,
  type Process,
  type ProcessView,
  type QueueSpec,
  SCHEDULE_KIND,
  type ScheduleLine,
  type StuckProcess,
  type TurnLine,
  type WakeOptions,
  type Wish,
} from '#runtime'

export type LedgerEntry = { readonly process: Process; readonly line: TurnLine; readonly since: Date }

export type Ledger = {
  readonly schedules: Map<string, ScheduleLine>
  readonly entries: ReadonlyMap<string, LedgerEntry>
  /** Throws for a wake that could not be written; before anything is. */
  check(process: Process, options: Omit<WakeOptions, 'tx'>): void
  wake(process: Process, options: Omit<WakeOptions, 'tx'>, schedule?: string): void
  begin(process: Process, turn: number, attemptsMax: number): TurnLine | undefined
  end(process: Process, fence: number, next: Next): void
  fail(process: Process, failure: Pick<Failure, 'fence' | 'why' | 'detail' | 'failuresMax'>): void
  resume(process: Process): boolean
  abort(process: Process, reason: string, queue?: string): void
  describe(process: Process): ProcessView | undefined
  stuck(limit: number): readonly StuckProcess[]
  openFirings(schedule: string): number
}

export function openLedger(
  now: Clock,
  queueOf: (kind: string) => string,
  specOf: (queue: string) => QueueSpec,
  changed: () => void,
): Ledger {
  const entries = new Map<string, LedgerEntry>()
  const schedules = new Map<string, ScheduleLine>()
  let [turns, fences] = [0, 0]
  const newTurn = () => ++turns
  const newFence = () => ++fences
  const keyOf = ({ kind, id }: Process) => `${kind}:${id}`
  const lineOf = (process: Process) => entries.get(keyOf(process))?.line ?? null

  function save(process: Process, line: TurnLine | null): void {
    if (line === null) entries.delete(keyOf(process))
    else entries.set(keyOf(process), { process, line, since: now() })
    changed()
  }

  function wishOf(
    process: Process,
    { delayMs = 0, queue, priority, partition }: Omit<WakeOptions, 'tx'>,
    schedule?: string,
  ): Wish {
    const where = queue ?? queueOf(process.kind)
    const spec = specOf(where)
    if (spec.partition && partition === undefined) {
      throw new KernelFault('runtime.wake.partition', `the queue ${where} needs a partition`)
    }
    return {
      now: now(),
      at: new Date(now().getTime() + delayMs),
      queue: where,
      priority: priority ?? spec.priority ?? 0,
      partition: partition ?? null,
      moves: queue !== undefined || priority !== undefined || partition !== undefined,
      schedule: schedule ?? null,
    }
  }

  function check(process: Process, options: Omit<WakeOptions, 'tx'>): void {
    checkProcess(process)
    checkWake(options)
    wishOf(process, options)
  }

  function wake(process: Process, options: Omit<WakeOptions, 'tx'>, schedule?: string): void {
    check(process, options)
    save(process, bookWake(lineOf(process), wishOf(process, options, schedule), newTurn).line)
  }

  return {
    schedules,
    entries,
    check,
    wake,
    begin(process, turn, attemptsMax) {
      const begun = bookBegin(lineOf(process), { turn, now: now(), attemptsMax, newFence, newTurn })
      if (begun.outcome !== 'stale') save(process, begun.line)
      return begun.outcome === 'begun' ? begun.line : undefined
    },
    end(process, fence, next) {
      const ended = bookEnd(lineOf(process), fence, next, now(), newTurn)
      if (ended.outcome === 'stale') return
      save(process, ended.line)
      if (ended.wakes !== null) wake({ kind: SCHEDULE_KIND, id: ended.wakes }, {})
    },
    fail(process, failure) {
      const failed = bookFailure(lineOf(process), { ...failure, now: now(), newTurn })
      if (failed.outcome !== 'stale') save(process, failed.line)
    },
    resume(process) {
      const booked = bookResume(lineOf(process), now(), newTurn)
      if (booked) save(process, booked.line)
      return booked !== null
    },
    abort(process, reason, queue = DEFAULT_QUEUE) {
      checkProcess(process)
      const wish = {
        now: now(),
        at: now(),
        queue,
        priority: 0,
        partition: null,
        moves: false,
        schedule: null,
      }
      save(process, bookAbort(lineOf(process), wish, reason, newFence))
    },
    describe(process) {
      const line = lineOf(process)
      if (line === null || line.state === 'idle') return undefined
      const isAhead = line.state === 'queued' && line.dueAt > now()
      const state = line.state === 'aborted' ? 'stuck' : isAhead ? 'waiting' : line.state
      const { turn, dueAt, queue, failures } = line
      return { ...process, state, turn, dueAt, queue, failures }
    },
    stuck(limit) {
      return [...entries.values()]
        .flatMap(({ process, line, since }) =>
          line.why !== null && (line.state === 'stuck' || line.state === 'aborted')
            ? [{ ...process, why: line.why, detail: line.detail ?? '', since }]
            : [],
        )
        .toSorted((a, b) => a.since.getTime() - b.since.getTime())
        .slice(0, limit)
    },
    openFirings: (schedule) =>
      [...entries.values()].filter(({ line }) => line.schedule === schedule && line.state !== 'aborted').length,
  }
}
