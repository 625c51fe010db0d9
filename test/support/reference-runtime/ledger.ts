/** What survives a crash of the reference runtime: one row per process, the schedules, and the numbers it has assigned. */
import type { Clock } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import {
  checkProcess,
  checkWake,
  DEFAULT_QUEUE,
  type Next,
  type Process,
  type ProcessView,
  type QueueSpec,
  SCHEDULE_KIND,
  type ScheduleLine,
  type StuckProcess,
  type WakeOptions,
} from '#runtime'
import {
  applyAbort,
  applyBegin,
  applyEnd,
  applyFailure,
  applyResume,
  applyWake,
  type Failure,
  type ProcessRow,
  type WakeRequest,
} from './process-row.ts'

export type LedgerEntry = { readonly process: Process; readonly row: ProcessRow; readonly since: Date }

export type Ledger = {
  readonly schedules: Map<string, ScheduleLine>
  readonly entries: ReadonlyMap<string, LedgerEntry>
  /** Throws for an invalid wake, before anything is written. */
  check(process: Process, options: Omit<WakeOptions, 'tx'>): void
  wake(process: Process, options: Omit<WakeOptions, 'tx'>, schedule?: string): void
  begin(process: Process, turn: number, attemptsMax: number): ProcessRow | undefined
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
  const rowOf = (process: Process) => entries.get(keyOf(process))?.row ?? null

  function save(process: Process, row: ProcessRow | null): void {
    if (row === null) entries.delete(keyOf(process))
    else entries.set(keyOf(process), { process, row, since: now() })
    changed()
  }

  function requestOf(
    process: Process,
    { delayMs = 0, queue, priority, partition }: Omit<WakeOptions, 'tx'>,
    schedule?: string,
  ): WakeRequest {
    const where = queue ?? queueOf(process.kind)
    const spec = specOf(where)
    if (spec.partition && partition === undefined) {
      throw new KernelFault('runtime.wake.partition', `The queue ${where} needs a partition.`)
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
    requestOf(process, options)
  }

  function wake(process: Process, options: Omit<WakeOptions, 'tx'>, schedule?: string): void {
    check(process, options)
    save(process, applyWake(rowOf(process), requestOf(process, options, schedule), newTurn))
  }

  return {
    schedules,
    entries,
    check,
    wake,
    begin(process, turn, attemptsMax) {
      const row = rowOf(process)
      // This engine repeats the turn of a dead worker under the same number, as a newer delivery.
      const delivery = (row?.delivery ?? 0) + 1
      const begun = applyBegin(row, { turn, delivery, now: now(), attemptsMax, newFence, newTurn })
      if (begun.outcome !== 'stale') save(process, begun.row)
      return begun.outcome === 'begun' ? begun.row : undefined
    },
    end(process, fence, next) {
      const ended = applyEnd(rowOf(process), fence, next, now(), newTurn)
      if (ended.outcome === 'stale') return
      save(process, ended.row)
      if (ended.wakes !== null) wake({ kind: SCHEDULE_KIND, id: ended.wakes }, {})
    },
    fail(process, failure) {
      const failed = applyFailure(rowOf(process), { ...failure, now: now(), newTurn })
      if (failed.outcome !== 'stale') save(process, failed.row)
    },
    resume(process) {
      const resumed = applyResume(rowOf(process), now(), newTurn)
      if (resumed) save(process, resumed)
      return resumed !== null
    },
    abort(process, reason, queue = DEFAULT_QUEUE) {
      checkProcess(process)
      const request = {
        now: now(),
        at: now(),
        queue,
        priority: 0,
        partition: null,
        moves: false,
        schedule: null,
      }
      save(process, applyAbort(rowOf(process), request, reason, newFence))
    },
    describe(process) {
      const row = rowOf(process)
      if (row === null || row.state === 'idle') return undefined
      const isAhead = row.state === 'queued' && row.dueAt > now()
      const state = row.state === 'aborted' ? 'stuck' : isAhead ? 'waiting' : row.state
      const { turn, dueAt, queue, failures } = row
      return { ...process, state, turn, dueAt, queue, failures }
    },
    stuck(limit) {
      return [...entries.values()]
        .flatMap(({ process, row, since }) =>
          row.why !== null && (row.state === 'stuck' || row.state === 'aborted')
            ? [{ ...process, why: row.why, detail: row.detail ?? '', since }]
            : [],
        )
        .toSorted((a, b) => a.since.getTime() - b.since.getTime())
        .slice(0, limit)
    },
    openFirings: (schedule) =>
      [...entries.values()].filter(({ row }) => row.schedule === schedule && row.state !== 'aborted').length,
  }
}
