/**
 * Decides what a scheduler does with due times: which fire, which are recorded as missed, and what
 * happens while the previous firing still runs. A due time is decided once; its key is the same for every scheduler.
 */
import type { Random } from './clock.ts'
import { scheduleKey } from './idempotency-key.ts'

/** For due times that are late because no scheduler ran: none, the latest one, or all of them up to a limit. */
export const misfirePolicies = ['skip', 'last', 'all'] as const
export type MisfirePolicy = (typeof misfirePolicies)[number]

/** The default: one catch-up for the latest missed time. */
export const DEFAULT_MISFIRE_POLICY: MisfirePolicy = 'last'
/** A due time is late when its start is longer ago than this; a tick or a restart takes less. */
export const DEFAULT_GRACE_MS = 60_000
/** The most that `all` catches up on at once: a day of quarter-hours. */
export const DEFAULT_CATCH_UPS_MAX = 96

/** The longest delay between a due time and the start of its firing. */
export const SCHEDULE_JITTER_MAX_MS = 3_600_000

/** The default number of schedules that people may keep in one workspace: a thousand is enough for a busy team. */
export const SCHEDULES_MAX = 1_000

export type DueSchedule = {
  readonly name: string
  /** The newest due time already decided, fired or missed. */
  readonly lastDueAt?: Date
  /** In any order; times already decided or still in the future are ignored. */
  readonly dueTimes: readonly Date[]
  readonly now: Date
  readonly misfire: MisfirePolicy
  readonly catchUpsMax?: number
  readonly graceMs?: number
  /** The delay of a firing after its due time; the due time itself never moves. */
  readonly jitterMs?: number
}

export type DueFiring = { readonly dueAt: Date; readonly startAt: Date; readonly key: string }
/** Both in order of time; together they contain every due time that has passed, once each. */
export type FiringPlan = { readonly fire: readonly DueFiring[]; readonly missed: readonly DueFiring[] }

export function planFirings(schedule: DueSchedule): FiringPlan {
  const {
    name,
    lastDueAt,
    now,
    misfire,
    catchUpsMax = DEFAULT_CATCH_UPS_MAX,
    graceMs = DEFAULT_GRACE_MS,
    jitterMs = 0,
  } = schedule
  const decidedUntilMs = lastDueAt?.getTime() ?? Number.NEGATIVE_INFINITY
  const dueMs = [...new Set(schedule.dueTimes.map((due) => due.getTime()))]
    .filter((ms) => ms > decidedUntilMs && ms + jitterMs <= now.getTime())
    .toSorted((left, right) => left - right)
  const lateBeforeMs = now.getTime() - graceMs
  const late = dueMs.filter((ms) => ms + jitterMs < lateBeforeMs)
  const onTime = dueMs.slice(late.length)
  const caughtUp = countCatchUps(misfire, catchUpsMax, late.length, onTime.length)
  const missed = late.slice(0, late.length - caughtUp)
  const firing = (ms: number): DueFiring => {
    const dueAt = new Date(ms)
    return { dueAt, startAt: new Date(ms + jitterMs), key: scheduleKey(name, dueAt) }
  }
  return { fire: dueMs.slice(missed.length).map(firing), missed: missed.map(firing) }
}

/** Returns how many late due times fire, counted from the newest: when they do not all fit, the oldest are dropped. */
function countCatchUps(misfire: MisfirePolicy, catchUpsMax: number, lateCount: number, onTimeCount: number): number {
  switch (misfire) {
    case 'skip':
      return 0
    case 'last':
      // A firing that is on time already does the work of the catch-up.
      return onTimeCount === 0 ? Math.min(1, lateCount) : 0
    case 'all':
      return Math.min(catchUpsMax, lateCount)
  }
}

/** Returns a whole number of milliseconds from 0 to `maxMs`, so that a thousand schedules of one minute do not start together. */
export function pickJitterMs(maxMs: number, random: Random): number {
  return Math.floor(random() * (maxMs + 1))
}

/** Decides a firing whose predecessor still runs: skip it, let it wait, or start it in parallel. */
export const overlapPolicies = ['skip', 'queue', 'allow'] as const
export type OverlapPolicy = (typeof overlapPolicies)[number]
export type OverlapDecision = 'start' | 'queue' | 'skip'

/** One waiting firing by default: a job that is always too slow would otherwise build up an endless queue. */
export function decideOverlap(
  policy: OverlapPolicy,
  runningCount: number,
  queuedCount = 0,
  queuedMax = 1,
): OverlapDecision {
  if (policy === 'allow') return 'start'
  if (runningCount === 0 && queuedCount === 0) return 'start'
  return policy === 'queue' && queuedCount < queuedMax ? 'queue' : 'skip'
}
