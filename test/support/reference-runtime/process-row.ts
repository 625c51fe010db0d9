/**
 * The row of a process in memory: what a wake, a hand-over, the begin of a turn, its end, a throw, a dead worker and an operator do to
 * it. Pure. The reference runtime runs on it, and the functions of the book in the database are compared with it move by move.
 *
 *   (none) ─wake▶ queued ─begin▶ running ─end: again, wait until, or woken meanwhile▶ queued
 *                    ▲              ├─ end: done, or wait for a wake▶ (none)
 *                    │              ├─ throw▶ queued, after a pause; too often▶ stuck
 *                    │              └─ its worker died▶ queued
 *                    └── resume ── stuck, aborted
 */
import type { Next, StuckReason } from '#runtime'

const PAUSE_FIRST_MS = 500
const PAUSE_LONGEST_MS = 60_000

export type ProcessRow = {
  /** `idle` has no open turn. Such a row exists only for a firing, which its schedule counts. */
  readonly state: 'idle' | 'queued' | 'running' | 'stuck' | 'aborted'
  /** The number of the open turn; a turn with another number is obsolete. */
  readonly turn: number
  /** The earliest start of a queued turn. */
  readonly dueAt: Date
  /** The earliest turn that was requested since the running one began. */
  readonly againAt: Date | null
  /** The fence of the newest begin; 0 before the first. */
  readonly fence: number
  /** The number of begins since the turn was requested. */
  readonly attempt: number
  /** The newest delivery of this turn that has begun. */
  readonly delivery: number
  /** True when the engine has the queued turn. */
  readonly isGiven: boolean
  /** The number of hand-overs without a begin. */
  readonly gives: number
  /** The number of consecutive throws. */
  readonly failures: number
  readonly why: StuckReason | null
  readonly detail: string | null
  readonly queue: string
  readonly priority: number
  readonly partition: string | null
  /** The schedule whose firing this is. */
  readonly schedule: string | null
}

export type WakeRequest = {
  readonly now: Date
  readonly at: Date
  readonly queue: string
  readonly priority: number
  readonly partition: string | null
  /** True when the wake named a queue, a priority or a partition; a running process moves there. */
  readonly moves: boolean
  readonly schedule: string | null
}

const inBook = { delivery: 0, isGiven: false, gives: 0 } as const

export function applyWake(row: ProcessRow | null, request: WakeRequest, newTurn: () => number): ProcessRow {
  const { at, queue, priority, partition } = request
  if (row === null || row.state === 'idle') {
    const known = row ?? blank(request)
    return queued({ ...known, queue, priority, partition, schedule: known.schedule ?? request.schedule }, at, newTurn)
  }
  if (row.state === 'queued') {
    // A process that throws keeps its pause. Otherwise a busy neighbour would wake it into `stuck` within milliseconds.
    return at < row.dueAt && row.failures === 0 && !row.isGiven ? { ...row, dueAt: at } : row
  }
  if (row.state === 'running') {
    const moved = request.moves ? { queue, priority, partition } : {}
    return { ...row, ...moved, againAt: earliest(row.againAt, at) }
  }
  return row
}

function blank({ at, queue, priority, partition, schedule }: WakeRequest): ProcessRow {
  const counts = { turn: 0, fence: 0, attempt: 0, failures: 0 }
  const none = { againAt: null, why: null, detail: null }
  return { state: 'idle', ...counts, ...none, ...inBook, dueAt: at, queue, priority, partition, schedule }
}

function queued(row: ProcessRow, dueAt: Date, newTurn: () => number): ProcessRow {
  const clear = { againAt: null, attempt: 0, why: null, detail: null }
  return { ...row, ...clear, ...inBook, state: 'queued', turn: newTurn(), dueAt }
}

/** Hands the turn to the engine; null when it is not due or already handed over. */
export function applyGive(row: ProcessRow | null, now: Date): ProcessRow | null {
  if (row === null || row.state !== 'queued' || row.isGiven || row.dueAt > now) return null
  return { ...row, isGiven: true, gives: row.gives + 1 }
}

/** The engine refused the turn, lost it, or gave it to a worker that cannot run it; null when the engine does not have it. */
export function applyReturn(
  row: ProcessRow | null,
  { turn, dueAt, newTurn }: { turn: number; dueAt: Date; newTurn: () => number },
): ProcessRow | null {
  if (row === null || row.state !== 'queued' || !row.isGiven || row.turn !== turn) return null
  return { ...row, isGiven: false, delivery: 0, turn: newTurn(), dueAt }
}

export type Begun =
  /** Not an open turn, or an older delivery of one. */
  | { readonly outcome: 'stale' }
  /** The engine's clock is ahead of the store's: the same work becomes a new turn at its time. */
  | { readonly outcome: 'early' | 'stuck' | 'begun'; readonly row: ProcessRow }

export type Begin = {
  readonly turn: number
  readonly delivery: number
  readonly now: Date
  readonly attemptsMax: number
  readonly newFence: () => number
  readonly newTurn: () => number
}

/** A newer delivery of a running turn is a take-over: a new fence excludes the earlier worker. */
export function applyBegin(row: ProcessRow | null, begin: Begin): Begun {
  const { turn, delivery, now, attemptsMax, newFence, newTurn } = begin
  const isOpen = row !== null && (row.state === 'queued' || row.state === 'running') && row.turn === turn
  if (!isOpen || delivery <= row.delivery) return { outcome: 'stale' }
  if (row.state === 'queued' && row.dueAt > now) {
    return { outcome: 'early', row: { ...row, ...inBook, turn: newTurn() } }
  }
  if (row.attempt >= attemptsMax) {
    const stopped = stuck(row, 'crashing', `${row.attempt} workers ended in this turn`, newFence())
    return { outcome: 'stuck', row: { ...stopped, isGiven: false, gives: 0 } }
  }
  // Every request so far is on the rows that the drive is about to read; a later due time stays.
  const againAt = row.againAt !== null && row.againAt > now ? row.againAt : null
  const running = { ...row, state: 'running', againAt, fence: newFence(), attempt: row.attempt + 1 } as const
  return { outcome: 'begun', row: { ...running, delivery, isGiven: false, gives: 0 } }
}

export type Ended =
  | { readonly outcome: 'stale' }
  /** `wakes` is the schedule that waits for the end of its firing. */
  | { readonly outcome: 'over' | 'queued'; readonly wakes: string | null; readonly row: ProcessRow | null }

export function applyEnd(row: ProcessRow | null, fence: number, next: Next, now: Date, newTurn: () => number): Ended {
  if (row === null || row.state !== 'running' || row.fence !== fence) return { outcome: 'stale' }
  const asked = next.t === 'again' ? now : next.t === 'wait' ? next.until : null
  const at = earliest(asked, row.againAt)
  const calm = { ...row, failures: 0 }
  if (at !== null) return { outcome: 'queued', wakes: null, row: queued(calm, at, newTurn) }
  if (next.t === 'wait' && row.schedule !== null) {
    return { outcome: 'over', wakes: null, row: { ...calm, ...inBook, state: 'idle', againAt: null, attempt: 0 } }
  }
  return { outcome: 'over', wakes: row.schedule, row: null }
}

export type Failed = { readonly outcome: 'stale' } | { readonly outcome: 'stuck' | 'queued'; readonly row: ProcessRow }

export type Failure = {
  readonly fence: number
  readonly why: StuckReason
  readonly detail: string
  readonly now: Date
  readonly failuresMax: number
  readonly newTurn: () => number
}

export function applyFailure(row: ProcessRow | null, failure: Failure): Failed {
  const { fence, why, detail, now, failuresMax, newTurn } = failure
  if (row === null || row.state !== 'running' || row.fence !== fence) return { outcome: 'stale' }
  const failures = row.failures + 1
  if (failures >= failuresMax) return { outcome: 'stuck', row: { ...stuck(row, why, detail, fence), failures } }
  const pauseMs = Math.min(PAUSE_LONGEST_MS, PAUSE_FIRST_MS * 2 ** (failures - 1))
  const paused = queued({ ...row, failures }, new Date(now.getTime() + pauseMs), newTurn)
  return { outcome: 'queued', row: { ...paused, detail } }
}

function stuck(row: ProcessRow, why: StuckReason, detail: string, fence: number): ProcessRow {
  return { ...row, state: 'stuck', againAt: null, why, detail, fence }
}

/** The worker has died: the turn is queued again, and its attempts stay counted. */
export function applyTakeOver(row: ProcessRow | null, now: Date, newTurn: () => number): ProcessRow | null {
  if (row === null || row.state !== 'running') return null
  return { ...row, ...inBook, state: 'queued', turn: newTurn(), dueAt: now }
}

/** Null when there is nothing to resume. */
export function applyResume(row: ProcessRow | null, now: Date, newTurn: () => number): ProcessRow | null {
  if (row === null || (row.state !== 'stuck' && row.state !== 'aborted')) return null
  return queued({ ...row, failures: 0 }, now, newTurn)
}

/** Also for a process without a row: a later wake finds it aborted. */
export function applyAbort(
  row: ProcessRow | null,
  request: WakeRequest,
  detail: string,
  newFence: () => number,
): ProcessRow {
  const known = { ...(row ?? blank(request)), isGiven: false, gives: 0 }
  return { ...known, state: 'aborted', againAt: null, why: 'aborted', detail, fence: newFence() }
}

function earliest(left: Date | null, right: Date | null): Date | null {
  if (left === null || right === null) return left ?? right
  return left <= right ? left : right
}
