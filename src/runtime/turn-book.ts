/**
 * The book of turns: what a wake, the begin of a turn, its end, a throw and an operator do to the one line that a runtime
 * keeps per process. Pure. The reference runtime runs on it; adapters that keep the line in a database are compared with
 * it, move by move.
 *
 *   (none) ─wake▶ queued ─begin▶ running ─end: again, wait until, or woken meanwhile▶ queued
 *                    ▲              ├─ end: done, or wait for a wake▶ (none)
 *                    │              └─ throw▶ queued, after a pause; too often▶ stuck
 *                    └── resume ── stuck, aborted
 */
import type { Next, StuckReason } from './port.ts'

export const DEFAULT_FAILURES_MAX = 8
export const DEFAULT_ATTEMPTS_MAX = 10
const PAUSE_FIRST_MS = 500
const PAUSE_LONGEST_MS = 60_000

export type TurnLine = {
  /** `idle` has no open turn; such a line is kept only for a firing, which its schedule counts. */
  readonly state: 'idle' | 'queued' | 'running' | 'stuck' | 'aborted'
  /** The number of the open turn; a turn with another number that comes to begin is a leftover. */
  readonly turn: number
  /** Of a queued turn: not before. */
  readonly dueAt: Date
  /** The earliest turn that was asked for since the running one began. */
  readonly againAt: Date | null
  /** Of the newest begin; 0 before the first. */
  readonly fence: number
  /** Begins of this very turn. */
  readonly attempt: number
  /** Throws in a row. */
  readonly failures: number
  readonly why: StuckReason | null
  readonly detail: string | null
  readonly queue: string
  readonly priority: number
  readonly partition: string | null
  /** The schedule whose firing this is. */
  readonly schedule: string | null
}

export type Wish = {
  readonly now: Date
  readonly at: Date
  readonly queue: string
  readonly priority: number
  readonly partition: string | null
  /** True when the wake itself named a queue, a priority or a partition: then a running process moves there. */
  readonly moves: boolean
  readonly schedule: string | null
}

/** The line afterwards, and the turn to hand to the engine: a new one, or an old one that is due earlier now. */
export type Booked = { readonly line: TurnLine | null; readonly give: { turn: number; dueAt: Date } | null }

export function bookWake(line: TurnLine | null, wish: Wish, newTurn: () => number): Booked {
  const { at, queue, priority, partition } = wish
  if (line === null || line.state === 'idle') {
    return queued(
      { ...(line ?? blank(wish)), queue, priority, partition, schedule: line?.schedule ?? wish.schedule },
      at,
      newTurn,
    )
  }
  if (line.state === 'queued') {
    // A process that throws keeps its pause, or a busy neighbour would wake it into stuck within milliseconds.
    const isSooner = at < line.dueAt && line.failures === 0
    return isSooner ? { line: { ...line, dueAt: at }, give: { turn: line.turn, dueAt: at } } : { line, give: null }
  }
  if (line.state === 'running') {
    const moved = wish.moves ? { queue, priority, partition } : {}
    return { line: { ...line, ...moved, againAt: earliest(line.againAt, at) }, give: null }
  }
  return { line, give: null }
}

function blank({ at, queue, priority, partition, schedule }: Wish): TurnLine {
  const counts = { turn: 0, fence: 0, attempt: 0, failures: 0 }
  const none = { againAt: null, why: null, detail: null }
  return { state: 'idle', ...counts, ...none, dueAt: at, queue, priority, partition, schedule }
}

function queued(
  line: TurnLine,
  dueAt: Date,
  newTurn: () => number,
): { line: TurnLine; give: { turn: number; dueAt: Date } } {
  const turn = newTurn()
  const clear = { againAt: null, attempt: 0, why: null, detail: null }
  return { line: { ...line, ...clear, state: 'queued', turn, dueAt }, give: { turn, dueAt } }
}

export type Begun =
  /** Not the open turn of anything. */
  | { readonly outcome: 'stale' }
  /** The engine's clock is ahead of the store's: the same work as a new turn at its time. */
  | ({ readonly outcome: 'early' } & Booked)
  | { readonly outcome: 'stuck'; readonly line: TurnLine }
  | { readonly outcome: 'begun'; readonly line: TurnLine }

export type Begin = {
  readonly turn: number
  readonly now: Date
  readonly attemptsMax: number
  readonly newFence: () => number
  readonly newTurn: () => number
}

/** Also what a take-over is: the same turn again, with a new fence that shuts the earlier worker out. */
export function bookBegin(line: TurnLine | null, { turn, now, attemptsMax, newFence, newTurn }: Begin): Begun {
  const isOpen = line !== null && (line.state === 'queued' || line.state === 'running') && line.turn === turn
  if (!isOpen) return { outcome: 'stale' }
  if (line.state === 'queued' && line.dueAt > now) {
    const { line: later, give } = queued(line, line.dueAt, newTurn)
    return { outcome: 'early', line: { ...later, detail: line.detail }, give }
  }
  if (line.attempt >= attemptsMax) {
    return { outcome: 'stuck', line: stuck(line, 'crashing', `${line.attempt} workers ended in this turn`, newFence()) }
  }
  // Whatever was asked for until now is on the rows that the drive is about to read; a later time stays.
  const againAt = line.againAt !== null && line.againAt > now ? line.againAt : null
  const fence = newFence()
  return { outcome: 'begun', line: { ...line, state: 'running', againAt, fence, attempt: line.attempt + 1 } }
}

export type Ended =
  | { readonly outcome: 'stale' }
  /** `wakes` is the schedule that waits for its firing to be done. */
  | ({ readonly outcome: 'over' | 'queued'; readonly wakes: string | null } & Booked)

export function bookEnd(line: TurnLine | null, fence: number, next: Next, now: Date, newTurn: () => number): Ended {
  if (line === null || line.state !== 'running' || line.fence !== fence) return { outcome: 'stale' }
  const asked = next.t === 'again' ? now : next.t === 'wait' ? next.until : null
  const at = earliest(asked, line.againAt)
  const calm = { ...line, failures: 0 }
  if (at !== null) return { outcome: 'queued', wakes: null, ...queued(calm, at, newTurn) }
  if (next.t === 'wait' && line.schedule !== null) {
    return { outcome: 'over', wakes: null, line: { ...calm, state: 'idle', againAt: null, attempt: 0 }, give: null }
  }
  return { outcome: 'over', wakes: line.schedule, line: null, give: null }
}

export type Failed =
  | { readonly outcome: 'stale' }
  | { readonly outcome: 'stuck'; readonly line: TurnLine }
  | ({ readonly outcome: 'queued' } & Booked)

export type Failure = {
  readonly fence: number
  readonly why: StuckReason
  readonly detail: string
  readonly now: Date
  readonly failuresMax: number
  readonly newTurn: () => number
}

export function bookFailure(line: TurnLine | null, { fence, why, detail, now, failuresMax, newTurn }: Failure): Failed {
  if (line === null || line.state !== 'running' || line.fence !== fence) return { outcome: 'stale' }
  const failures = line.failures + 1
  if (failures >= failuresMax) return { outcome: 'stuck', line: { ...stuck(line, why, detail, fence), failures } }
  const pauseMs = Math.min(PAUSE_LONGEST_MS, PAUSE_FIRST_MS * 2 ** (failures - 1))
  const paused = queued({ ...line, failures }, new Date(now.getTime() + pauseMs), newTurn)
  return { outcome: 'queued', line: { ...paused.line, detail }, give: paused.give }
}

function stuck(line: TurnLine, why: StuckReason, detail: string, fence: number): TurnLine {
  return { ...line, state: 'stuck', againAt: null, why, detail, fence }
}

/** Null: there is nothing to resume. */
export function bookResume(line: TurnLine | null, now: Date, newTurn: () => number): Booked | null {
  if (line === null || (line.state !== 'stuck' && line.state !== 'aborted')) return null
  return queued({ ...line, failures: 0 }, now, newTurn)
}

/** Also for a process that has no line: a wake that comes later finds it aborted. */
export function bookAbort(line: TurnLine | null, wish: Wish, detail: string, newFence: () => number): TurnLine {
  return { ...(line ?? blank(wish)), state: 'aborted', againAt: null, why: 'aborted', detail, fence: newFence() }
}

function earliest(left: Date | null, right: Date | null): Date | null {
  if (left === null || right === null) return left ?? right
  return left <= right ? left : right
}
