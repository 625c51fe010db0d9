/** One turn of a process: its token, the row as last read or written, whether the turn still holds the row, and the calls it makes. */
import { AHEAD_MAX_MS, type Clock } from '#kernel/clock'
import type { Decision } from '#kernel/refusal'
import type { Fence, Next, Process, Runtime } from '#runtime'
import type { Db, Sql } from '#store'
import { findInProcessTurn, isInProcessToken, type TurnTable } from './turn-table.ts'

/** Settles after the time, or at once when the signal is aborted. */
type Sleep = (ms: number, signal: AbortSignal) => Promise<void>

/** Longer than the slowest step between two renewals; a later token takes over at once regardless. */
const TURN_MS = 30_000
/** Only this process knows of an in-process turn, so its lease is short and renewed while the turn runs. */
export const IN_PROCESS_TURN_MS = 2_500

export type TurnDeps = {
  readonly db: Db
  readonly now: Clock
  readonly sleep: Sleep
  readonly wake: Runtime['wake']
}

/** Shortens the leases that were given while the clock was ahead, to their own length from now. */
export async function capLeases({ db }: Pick<TurnDeps, 'db'>, { cap }: Pick<TurnTable<unknown>, 'cap'>) {
  return db.run(cap, [IN_PROCESS_TURN_MS, TURN_MS, AHEAD_MAX_MS])
}

/** A room's settings for the kit: its kind of process, its table, and how to read what belongs to a held row. */
export type TurnRoom<Row, Found> = {
  readonly kind: string
  readonly table: TurnTable<Row>
  /** Reads after the row is held: a statement that waited for the row would see an older snapshot of other tables. */
  readonly read: (sql: Sql, row: Row) => Promise<Found>
}

export type Turn<Found> = {
  readonly process: Process
  readonly token: string
  /** The runtime's name for it, `turn:{kind}:{id}:{n}`. */
  readonly name: string
  readonly signal: AbortSignal
  readonly leaseMs: number
  found: Found
  /** True when a later turn has the row: this turn writes nothing more. */
  isLost: boolean
  /** When the row was last known to be held: the time just before the check. */
  heldAt: Date
}

export function openTurn<Found>(
  process: Process,
  fence: Pick<Fence, 'token' | 'turn' | 'signal'>,
  found: Found,
  heldAt: Date,
): Turn<Found> {
  const { token, turn: name, signal } = fence
  const leaseMs = isInProcessToken(token) ? IN_PROCESS_TURN_MS : TURN_MS
  return { process, token, name, signal, leaseMs, found, isLost: false, heldAt }
}

/** Returns the turn or, without one, what the runtime does next: nothing, or another turn after an in-process turn has ended. */
export async function takeTurn<Row, Found>(
  deps: Pick<TurnDeps, 'db' | 'now'>,
  { kind, table, read }: TurnRoom<Row, Found>,
  id: string,
  fence: Fence,
): Promise<{ readonly turn: Turn<Found> } | { readonly next: Next }> {
  const askedAt = deps.now()
  const [row] = await deps.db.run(table.take, [id, fence.token, TURN_MS])
  if (row) return { turn: openTurn({ kind, id }, fence, await read(deps.db, row), askedAt) }
  // An in-process turn sees the reason for this wake at its next write; one that has just ended may have missed it.
  const until = await findInProcessTurn(deps.db, table, id)
  if (until === undefined) return { next: { t: 'done' } }
  return { next: until === null ? { t: 'again' } : { t: 'wait', until } }
}

/** Returns true when the write succeeded; the turn then has the new row. Returns false when the row had moved; the turn is then refreshed or lost. */
export async function settleTurn<Row, Found>(
  deps: Pick<TurnDeps, 'db'>,
  room: TurnRoom<Row, Found>,
  turn: Turn<Found>,
  at: Date,
  written: Decision<Found>,
): Promise<boolean> {
  if (!written.ok) {
    await refreshTurn(deps, room, turn)
    return false
  }
  turn.found = written.value
  turn.heldAt = at
  return true
}

/** Takes the turn again with the same token, unless a later token has it or the row has ended. */
export async function refreshTurn<Row, Found>(
  { db }: Pick<TurnDeps, 'db'>,
  { table, read }: TurnRoom<Row, Found>,
  turn: Turn<Found>,
): Promise<void> {
  const statement = isInProcessToken(turn.token) ? table.keep : table.take
  const [row] = await db.run(statement, [turn.process.id, turn.token, turn.leaseMs])
  if (row) turn.found = await read(db, row)
  else turn.isLost = true
}

/**
 * Half of the shortest time in which another process may take over a turn. A process that was frozen or cut off for longer, between
 * recording a begin and making the call, would otherwise repeat a call that its successor has already made.
 */
const TRUST_MS = 400
/** Bounds the checks, so that a slow database does not block its rows. */
const TRUST_TRIES = 3

/** Checks right before every call that the turn still holds the row. No other code of ours runs between check and call. */
export async function isStillHeld<Found>(
  deps: Pick<TurnDeps, 'db' | 'now'>,
  { renew }: Pick<TurnTable<unknown>, 'renew'>,
  turn: Turn<Found>,
): Promise<boolean> {
  for (let tries = 0; tries < TRUST_TRIES && !turn.isLost; tries++) {
    const asked = deps.now()
    const ageMs = asked.getTime() - turn.heldAt.getTime()
    if (ageMs >= 0 && ageMs < TRUST_MS) return true
    const [row] = await deps.db.run(renew, [turn.process.id, turn.token, turn.leaseMs])
    turn.heldAt = asked
    turn.isLost = row === undefined
  }
  return !turn.isLost
}

/** The abort reason after a whole lease without the database: another process may have taken over the turn. */
const UNRENEWED = 'the turn could not be renewed'
/** Renewals per lease. */
const RENEWALS = 3

/**
 * Renews the turn while a call runs, and settles only when the turn is lost. A failed renewal proves nothing, so the call continues: giving
 * up would release the row during the call, and the next turn would repeat it. After a lease without a renewal the call's signal is
 * aborted, and its answer still counts.
 */
export function keepHeld<Found>(
  { db, sleep }: Pick<TurnDeps, 'db' | 'sleep'>,
  { renew }: Pick<TurnTable<unknown>, 'renew'>,
  turn: Turn<Found>,
): Watcher<'lost'> {
  return async (ended, stop) => {
    for (let missed = 0; ; ) {
      await sleep(turn.leaseMs / RENEWALS, ended)
      if (ended.aborted) return new Promise(() => {})
      const rows = await db.run(renew, [turn.process.id, turn.token, turn.leaseMs]).catch(() => undefined)
      if (rows?.length === 0) {
        turn.isLost = true
        return 'lost'
      }
      missed = rows ? 0 : missed + 1
      if (missed >= RENEWALS) stop(UNRENEWED)
    }
  }
}

type Deadline = {
  readonly sleep: Sleep
  readonly ms: number
  /** Its abort is passed on to the call; the call's answer is still awaited. */
  readonly signal?: AbortSignal
}

/** The abort reason after the call has ended: a string, because an error object per call costs 8 µs. */
const CALL_OVER = 'the call has ended'

/** Runs during the call until `ended` is aborted; `stop` aborts the signal of the call. */
type Watcher<T> = (ended: AbortSignal, stop: (reason: unknown) => void) => Promise<T>

/** No answer in time: the call's signal is aborted, and its answer is ignored. */
export const LATE = Symbol('late')

/** An effect that only computes settles within three. */
const SETTLE_TICKS = 8

/**
 * Makes one call that settles with its answer, at the deadline, or with one of the watchers. Rejects when the call throws. A call that
 * settles within a few microtasks needs neither timer nor watchers, which saves 2 µs.
 */
export async function withDeadline<T, W = never>(
  { sleep, ms, signal }: Deadline,
  call: (signal: AbortSignal) => Promise<T>,
  ...watchers: readonly Watcher<W>[]
): Promise<T | W | typeof LATE> {
  const stop = new AbortController()
  let ended: AbortController | undefined
  const passOn = () => stop.abort(signal?.reason)
  if (signal?.aborted) passOn()
  signal?.addEventListener('abort', passOn, { once: true })
  try {
    const called = call(stop.signal)
    // The watcher of a signal that is already aborted comes before the answer.
    if (!signal?.aborted && (await isSettledSoon(called))) return await called
    ended = new AbortController()
    const over = ended.signal
    const late = sleep(ms, over).then((): typeof LATE => LATE)
    const watching = watchers.map((watch) => watch(over, (reason) => stop.abort(reason)))
    return await Promise.race([called, late, ...watching])
  } finally {
    signal?.removeEventListener('abort', passOn)
    stop.abort(CALL_OVER)
    ended?.abort(CALL_OVER)
  }
}

async function isSettledSoon(called: Promise<unknown>): Promise<boolean> {
  let isSettled = false
  const settle = () => void (isSettled = true)
  called.then(settle, settle)
  for (let tick = 0; tick < SETTLE_TICKS && !isSettled; tick++) await Promise.resolve()
  return isSettled
}
