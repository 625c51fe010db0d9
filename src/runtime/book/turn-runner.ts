/**
 * Runs a turn: begin on the process's row, drive, end on the row. A turn either starts in the process that asked for it,
 * with its begin already written, or comes through the engine. It never throws and waits only for a slot and the drive, so
 * an engine has nothing to remember in between.
 */
import { setTimeout as sleep } from 'node:timers/promises'
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
import { type Db, failpoint, outcomeOf, type Statement } from '#store'
import type { GivenTurn } from './carrier.ts'
import { beginTurn, type EndedRow, endTurn, type FailedRow, failTurn, findLostTurns, returnTurn } from './statements.ts'

export type Kind = { readonly drive: Drive; readonly options: KindOptions }

/** A turn whose begin is written. */
type BegunTurn = {
  readonly process: Process
  readonly turn: number
  readonly queue: string
  readonly fence: number
  readonly attempt: number
}

type TurnRunnerOptions = {
  readonly executorId: string
  readonly kindOf: (kind: string) => Kind | undefined
  /** The slots of this worker, by queue. */
  readonly slots: {
    admit(queue: string, ms: number): Promise<boolean>
    enter(queue: string): void
    leave(queue: string): boolean
  }
  /** Offers a slot for the next turn of the process, which then starts here at once. */
  readonly offerSlot: (queue: string, kind: string) => (() => void) | undefined
  readonly onOpened: (queue: string) => void
  readonly onDelayed: (queue: string, waitMs: number) => void
  readonly onError: (error: unknown) => void
}

export type TurnRunner = {
  /** Starts a turn whose begin the caller has written, in a slot that the caller reserved. */
  start(turn: BegunTurn, release: () => void): void
  /** Registers a turn that the engine will deliver, here or elsewhere; a slot is reserved for it. */
  expect(name: string, release: () => void): void
  /** Runs a turn that the engine delivers. */
  deliver(turn: GivenTurn, delivery: number): Promise<string>
  isUnderWay(process: Process, fence: number): boolean
  /** Asks the book which turns this worker still holds and aborts the others. */
  checkOwnership(): Promise<void>
  loseAll(): void
  /** Stops all writes; running bodies never answer, as after a crash. */
  halt(): void
  /** Resolves when no turn is running. */
  drained(): Promise<void>
}

type UnderWay = { readonly process: Process; readonly fence: number; readonly lost: AbortController }
const DETAIL_LENGTH_MAX = 2_000
const DRAIN_LOOK_MS = 5
const REFUSALS_MAX = 5
/** After this wait for a slot the turn goes back to the book, for another worker. */
const ADMIT_MS = 1_000
/** Names beyond this number belong to turns that went to another worker. */
const EXPECTED_MAX = 10_000

export function openTurnRunner(db: Db, options: TurnRunnerOptions): TurnRunner {
  const { executorId, kindOf, slots, onError } = options
  const expected = new Map<string, () => void>()
  const underWay = new Set<UnderWay>()
  let [isHalted, count] = [false, 0]
  const never = new Promise<never>(() => {})

  /** Retries until the row is written: without an answer of the database the turn waits. */
  async function persist<Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row | undefined> {
    for (let [attempt, refusals] = [0, 0]; ; attempt++) {
      if (isHalted) return never
      try {
        const [row] = await db.run(statement, values)
        return isHalted ? await never : row
      } catch (error) {
        if (isHalted) return never
        onError(error)
        // Repeated refusals by a server that answers are final.
        if (outcomeOf(error) === 'not_done' && ++refusals >= REFUSALS_MAX) throw error
        await sleep(Math.min(5_000, 50 * 2 ** attempt))
      }
    }
  }

  async function end({ process, fence, queue }: BegunTurn, next: Next): Promise<EndedRow | undefined> {
    const release = options.offerSlot(queue, process.kind)
    const until = next.t === 'wait' ? next.until : null
    const executor = release ? executorId : null
    const row = await persist(endTurn, [process.kind, process.id, fence, next.t, until, executor, queue])
    if (row?.outcome === 'started' && release) {
      start({ process, turn: Number(row.turn), queue: row.queue, fence: Number(row.fence), attempt: 1 }, release)
    } else release?.()
    return row
  }

  async function fail({ process, fence }: BegunTurn, error: unknown): Promise<FailedRow | undefined> {
    const { failuresMax = DEFAULT_FAILURES_MAX } = kindOf(process.kind)?.options ?? {}
    onError(error)
    const detail = describe(error).slice(0, DETAIL_LENGTH_MAX)
    return persist(failTurn, [process.kind, process.id, fence, 'failing', detail, failuresMax])
  }

  async function drive({ kind, id }: Process, fence: Fence): Promise<Next> {
    const known = kindOf(kind)
    if (!known) throw new Error(`No driver is registered for processes of kind ${kind}.`)
    return checkNext(await known.drive(id, fence))
  }

  /** Runs a turn from its written begin to its written end. */
  async function run(begun: BegunTurn): Promise<string> {
    const { process, turn, fence, attempt } = begun
    const mine: UnderWay = { process, fence, lost: new AbortController() }
    underWay.add(mine)
    let row: EndedRow | FailedRow | undefined
    try {
      await failpoint('runtime.turn_begun')
      const name = turnName(process, turn)
      const next = await drive(process, { token: fenceToken(fence), turn: name, attempt, signal: mine.lost.signal })
      await failpoint('runtime.turn_ending')
      row = await end(begun, next)
      await failpoint('runtime.turn_ended')
    } catch (error) {
      row = isHalted ? await never : await fail(begun, error)
    } finally {
      underWay.delete(mine)
    }
    announce(row)
    return row?.outcome ?? 'stale'
  }

  function announce(row: EndedRow | FailedRow | undefined): void {
    if (row?.outcome === 'opened') options.onOpened(row.queue)
    if (row?.outcome === 'delayed') options.onDelayed(row.queue, row.wait_ms)
  }

  /** Runs the work in a slot that has been entered, and leaves the slot afterwards. */
  async function inSlot(queue: string, work: () => Promise<string>): Promise<string> {
    try {
      return await work()
    } finally {
      if (slots.leave(queue)) options.onOpened(queue)
    }
  }

  /** Also for a turn that is given back: a close that did not wait for that would leave the engine with a turn that never ends. */
  async function counted(work: () => Promise<string>): Promise<string> {
    count += 1
    try {
      return await work()
    } finally {
      count -= 1
    }
  }

  function start(turn: BegunTurn, release: () => void): void {
    if (isHalted) return
    slots.enter(turn.queue)
    release()
    void counted(() => inSlot(turn.queue, () => run(turn))).catch(onError)
  }

  async function giveBack({ kind, id, turn }: GivenTurn): Promise<string> {
    const isDriven = kindOf(kind) !== undefined
    const row = await persist(returnTurn, [kind, id, turn, isDriven, executorId])
    if (row?.outcome === 'returned') options.onDelayed(row.queue, row.wait_ms)
    return row?.outcome ?? 'stale'
  }

  return {
    start,
    expect(name, release) {
      expected.set(name, release)
      if (expected.size <= EXPECTED_MAX) return
      const [oldest = name] = expected.keys()
      expected.delete(oldest)
    },
    deliver(given, delivery) {
      if (isHalted) return never
      const { book, kind, id, turn, queue } = given
      expected.get(given.name)?.()
      expected.delete(given.name)
      return counted(async () => {
        const known = kindOf(kind)
        if (!known || !(await slots.admit(queue, ADMIT_MS))) return giveBack(given)
        return inSlot(queue, async () => {
          const { attemptsMax = DEFAULT_ATTEMPTS_MAX } = known.options
          const row = await persist(beginTurn, [book, kind, id, turn, delivery, executorId, attemptsMax])
          if (row?.outcome !== 'begun') return row?.outcome ?? 'stale'
          return run({ process: { kind, id }, turn, queue, fence: Number(row.fence), attempt: row.attempt })
        })
      })
    },
    isUnderWay: ({ kind, id }, fence) =>
      [...underWay].some((turn) => turn.process.kind === kind && turn.process.id === id && turn.fence === fence),
    async checkOwnership() {
      const held = [...underWay]
      if (held.length === 0) return
      const values = [
        held.map(({ process }) => process.kind),
        held.map(({ process }) => process.id),
        held.map(({ fence }) => fence),
      ]
      const lost = new Set((await db.run(findLostTurns, values)).map(({ kind, id, fence }) => `${kind}:${id}:${fence}`))
      for (const { process, fence, lost: controller } of held) {
        if (lost.has(`${process.kind}:${process.id}:${fence}`)) controller.abort()
      }
    },
    loseAll() {
      for (const { lost } of underWay) lost.abort()
    },
    halt() {
      isHalted = true
    },
    async drained() {
      while (!isHalted && count > 0) await sleep(DRAIN_LOOK_MS)
    },
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}
