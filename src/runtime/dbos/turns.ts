/**
 * A turn is one workflow of the engine, `turn:{kind}:{id}:{n}`, whose body is here: begin on the process's line, drive, end on
 * the line. It never throws and never waits for anything but the drive, so the engine has nothing to remember in between.
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
import { type Db, outcomeOf, failpoint, type Statement } from '#store'
import type { Places } from './places.ts'
import { beginTurn, type EndedRow, endTurn, type FailedRow, failTurn, findLostTurns } from './statements.ts'

export type Kind = { readonly drive: Drive; readonly options: KindOptions }

export type TurnsOptions = {
  readonly kindOf: (kind: string) => Kind | undefined
  readonly places: Places
  readonly executorId: () => string
  /** The next turn of a process may start here at once: the row is written as claimed by this owner. */
  readonly offerOwner: (
    queue: string,
    kind: string,
  ) => { readonly owner: string; readonly release: () => void } | undefined
  readonly onStarted: (
    process: Process,
    turn: number,
    fence: number,
    queue: string,
    place: { owner: string; release: () => void },
  ) => void
  readonly onOpened: (queue: string) => void
  readonly onDelayed: (turn: string, waitMs: number) => void
  readonly onError: (error: unknown) => void
}

export type Turns = {
  /** The workflow's body. */
  run(kind: string, id: string, turn: number, queue: string): Promise<string>
  /** A turn whose begin is already written, or that turned out to be nobody's; its body will not ask again. */
  expect(name: string, begun: Begun | undefined): void
  forget(name: string): void
  isUnderWay(name: string): boolean
  /** Asks the store which turns are still ours and tells the others to stop. */
  checkOwnership(): Promise<void>
  loseAll(): void
  /** Nothing is written any more; bodies that are under way never answer, as after a crash. */
  halt(): void
  /** Resolves when no turn is under way. */
  drained(): Promise<void>
  readonly count: number
}

export type Begun = { readonly fence: number; readonly attempt: number }
type UnderWay = { readonly process: Process; readonly fence: number; readonly lost: AbortController }
const DETAIL_LENGTH_MAX = 2_000
const DRAIN_LOOK_MS = 5
const REFUSALS_MAX = 5

export function openTurns(db: Db, options: TurnsOptions): Turns {
  const { kindOf, places, onError } = options
  const begun = new Map<string, Begun | undefined>()
  const underWay = new Set<UnderWay>()
  const names = new Map<string, number>()
  let [isHalted, count] = [false, 0]
  const never = new Promise<never>(() => {})

  /** The line must be written: without an answer of the database the turn waits, as the engine itself does. */
  async function persist<Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row | undefined> {
    for (let [attempt, refusals] = [0, 0]; ; attempt++) {
      if (isHalted) return never
      try {
        const [row] = await db.run(statement, values)
        return isHalted ? await never : row
      } catch (error) {
        if (isHalted) return never
        onError(error)
        // A server that answers and refuses, time after time, will not change its mind.
        if (outcomeOf(error) === 'not_done' && ++refusals >= REFUSALS_MAX) throw error
        await sleep(Math.min(5_000, 50 * 2 ** attempt))
      }
    }
  }

  async function begin(process: Process, turn: number): Promise<Begun | undefined> {
    const name = turnName(process, turn)
    const known = begun.get(name)
    if (begun.delete(name)) return known
    const { attemptsMax = DEFAULT_ATTEMPTS_MAX } = kindOf(process.kind)?.options ?? {}
    const row = await persist(beginTurn, [process.kind, process.id, turn, attemptsMax])
    return row?.outcome === 'begun' ? { fence: Number(row.fence), attempt: row.attempt } : undefined
  }

  async function end(process: Process, fence: number, next: Next, queue: string): Promise<EndedRow | undefined> {
    const until = next.t === 'wait' ? next.until : null
    const place = options.offerOwner(queue, process.kind)
    const executorId = place ? options.executorId() : null
    const row = await persist(endTurn, [
      process.kind,
      process.id,
      fence,
      next.t,
      until,
      executorId,
      place?.owner ?? null,
    ])
    if (row?.outcome === 'started' && place)
      options.onStarted(process, Number(row.turn), Number(row.fence), row.queue, place)
    else place?.release()
    return row
  }

  async function fail(process: Process, fence: number, error: unknown): Promise<FailedRow | undefined> {
    const kind = kindOf(process.kind)
    const detail = (kind ? describe(error) : `nothing drives processes of kind ${process.kind}`).slice(
      0,
      DETAIL_LENGTH_MAX,
    )
    const failuresMax = kind ? (kind.options.failuresMax ?? DEFAULT_FAILURES_MAX) : 1
    onError(error)
    return persist(failTurn, [process.kind, process.id, fence, kind ? 'failing' : 'no_driver', detail, failuresMax])
  }

  async function drive(process: Process, fence: Fence): Promise<Next> {
    const kind = kindOf(process.kind)
    if (!kind) throw new Error(`nothing drives processes of kind ${process.kind}`)
    return checkNext(await kind.drive(process.id, fence))
  }

  async function give(process: Process, turn: number, queue: string): Promise<string> {
    const name = turnName(process, turn)
    const started = await begin(process, turn)
    if (!started) return 'stale'
    const { fence, attempt } = started
    const mine: UnderWay = { process, fence, lost: new AbortController() }
    underWay.add(mine)
    let row: EndedRow | FailedRow | undefined
    try {
      await failpoint('runtime.turn_begun')
      const next = await drive(process, { token: fenceToken(fence), turn: name, attempt, signal: mine.lost.signal })
      await failpoint('runtime.turn_ending')
      row = await end(process, fence, next, queue)
      await failpoint('runtime.turn_ended')
    } catch (error) {
      row = isHalted ? await never : await fail(process, fence, error)
    } finally {
      underWay.delete(mine)
    }
    if (row?.outcome === 'opened') options.onOpened(row.queue)
    if (row?.outcome === 'delayed') options.onDelayed(turnName(process, Number(row.turn)), row.wait_ms)
    return row?.outcome ?? 'stale'
  }

  return {
    get count() {
      return count
    },
    async run(kind, id, turn, queue) {
      if (isHalted) return never
      const name = turnName({ kind, id }, turn)
      places.enter(queue)
      names.set(name, (names.get(name) ?? 0) + 1)
      count += 1
      try {
        return await give({ kind, id }, turn, queue)
      } finally {
        count -= 1
        // A turn that was taken over and came back may run here twice for a moment.
        const left = (names.get(name) ?? 1) - 1
        if (left === 0) names.delete(name)
        else names.set(name, left)
        if (places.leave(queue)) options.onOpened(queue)
      }
    },
    expect: (name, known) => void begun.set(name, known),
    forget: (name) => void begun.delete(name),
    isUnderWay: (name) => names.has(name) || begun.has(name),
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
      // Also those that are written as begun and whose bodies have not come yet.
      while (!isHalted && (count > 0 || begun.size > 0)) await sleep(DRAIN_LOOK_MS)
    },
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}
