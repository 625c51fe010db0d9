/** The workers of the reference runtime: which worker gets which turn, by chance, and what happens when one dies. */
import type { Clock, Random } from '#kernel/clock'
import {
  checkNext,
  DEFAULT_ATTEMPTS_MAX,
  DEFAULT_FAILURES_MAX,
  type Drive,
  type Fence,
  fenceToken,
  type KindOptions,
  type Next,
  type Process,
  turnName,
} from '#runtime'
import type { ProcessRow } from './process-row.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import type { QueueRoom } from './queue-room.ts'

export type Kind = { readonly drive: Drive; readonly options: KindOptions }
/** Handles every turn in the same way. */
export type Stranger = (process: Process, fence: Fence) => Promise<Next>

export type WorkersOptions = {
  readonly random: Random
  readonly now: Clock
  readonly ledger: Ledger
  readonly room: QueueRoom
  readonly kinds: ReadonlyMap<string, Kind>
}

export type Workers = {
  /** Starts turns as long as it is open. */
  pumpSoon(): void
  open(): void
  /** Starts no more turns; running turns continue. */
  shut(): void
  /** The running turns have no worker. */
  abandon(options?: { readonly telling: boolean }): void
  join(stranger: Stranger): void
  /** Aborts the running turn of this process, which no longer counts. */
  lose(process: Process): void
  readonly isOpen: boolean
  readonly begunCount: number
}

type Running = {
  readonly process: Process
  readonly line: ProcessRow
  readonly worker: number
  readonly lost: AbortController
}
const OURS = 0

export function openWorkers({ random, now, ledger, room, kinds }: WorkersOptions): Workers {
  const strangers: Stranger[] = []
  const running = new Map<string, Running>()
  let [isOpen, isPumping, begunCount] = [false, false, 0]

  function pumpSoon(): void {
    if (isPumping || !isOpen) return
    isPumping = true
    // Yields to the event loop now and then: a process that always says `again` would block it.
    const soon = begunCount % 64 === 63 ? setImmediate : queueMicrotask
    soon(() => {
      isPumping = false
      for (let choice = choose(); choice; choice = choose()) begin(choice.entry, choice.worker)
    })
  }

  /** Due turns and turns of dead workers; a random one of those with the smallest priority. */
  function choose(): { entry: LedgerEntry; worker: number } | undefined {
    const time = now()
    let ready: { entry: LedgerEntry; free: readonly number[] }[] = []
    for (const entry of isOpen ? ledger.entries.values() : []) {
      const { process, row: line } = entry
      const isDue = line.state === 'queued' ? line.dueAt <= time : line.state === 'running' && !isRunning(process, line)
      if (!isDue || line.priority > (ready[0]?.entry.row.priority ?? Number.POSITIVE_INFINITY)) continue
      const free = freeWorkers(line, time)
      if (free.length === 0) continue
      if (line.priority < (ready[0]?.entry.row.priority ?? 0)) ready = []
      ready.push({ entry, free })
    }
    const picked = ready[Math.floor(random() * ready.length)]
    const worker = picked?.free[Math.floor(random() * picked.free.length)]
    return picked && worker !== undefined ? { entry: picked.entry, worker } : undefined
  }

  function isRunning(process: Process, line: ProcessRow): boolean {
    return running.has(turnName(process, line.turn))
  }

  function freeWorkers({ queue, partition }: ProcessRow, time: Date): readonly number[] {
    const under = [...running.values()].map(({ line, worker }) => ({
      queue: line.queue,
      partition: line.partition,
      worker,
    }))
    const workers = [OURS, ...strangers.map((_, index) => index + 1)]
    return workers.filter((worker) => room.isFree({ queue, partition, worker }, under, time))
  }

  function begin({ process, row: line }: LedgerEntry, worker: number): void {
    const { attemptsMax = DEFAULT_ATTEMPTS_MAX } = kinds.get(process.kind)?.options ?? {}
    room.begin(line.queue, now())
    const begun = ledger.begin(process, line.turn, attemptsMax)
    if (!begun) return
    begunCount += 1
    const turn: Running = { process, line: begun, worker, lost: new AbortController() }
    running.set(turnName(process, begun.turn), turn)
    void give(turn)
  }

  async function give(turn: Running): Promise<void> {
    const { process, line, worker, lost } = turn
    const name = turnName(process, line.turn)
    const fence: Fence = { token: fenceToken(line.fence), turn: name, attempt: line.attempt, signal: lost.signal }
    const { drive, options } = kinds.get(process.kind) ?? { drive: undefined, options: {} }
    const stranger = worker === OURS ? undefined : strangers[worker - 1]
    const isMine = () => running.get(name) === turn && running.delete(name)
    try {
      if (!drive && !stranger) throw new NoDriver(`No driver is registered for processes of kind ${process.kind}.`)
      const next = await (stranger ? stranger(process, fence) : drive?.(process.id, fence))
      const checked = checkNext(next as Next)
      if (isMine()) ledger.end(process, line.fence, checked)
    } catch (error) {
      const isMissing = error instanceof NoDriver
      const { failuresMax = DEFAULT_FAILURES_MAX } = options
      const failure = { why: isMissing ? 'no_driver' : 'failing', failuresMax: isMissing ? 1 : failuresMax } as const
      if (isMine()) ledger.fail(process, { ...failure, fence: line.fence, detail: String(error) })
    }
  }

  return {
    pumpSoon,
    get isOpen() {
      return isOpen
    },
    get begunCount() {
      return begunCount
    },
    open() {
      isOpen = true
      pumpSoon()
    },
    shut() {
      isOpen = false
    },
    abandon({ telling } = { telling: false }) {
      if (telling) for (const { lost } of running.values()) lost.abort()
      running.clear()
    },
    join(stranger) {
      strangers.push(stranger)
      pumpSoon()
    },
    lose({ kind, id }) {
      for (const [name, { process, lost }] of running) {
        if (process.kind !== kind || process.id !== id) continue
        running.delete(name)
        lost.abort()
      }
    },
  }
}

class NoDriver extends Error {}
