/**
 * What a scheduler does with the due times that it finds: which ones fire, which ones are recorded as missed, and what
 * happens when the firing before is still running. A due time is decided once; its key is the same for every scheduler.
 */
import type { Random } from './clock.ts'
import { scheduleKey } from './key-template.ts'

/** For due times that are late because nobody was there: none, the latest one, or all of them up to a limit. */
export const misfirePolicies = ['skip', 'last', 'all'] as const
export type MisfirePolicy = (typeof misfirePolicies)[number]

/** One catch-up for the latest missed time, unless a schedule says otherwise. */
export const DEFAULT_MISFIRE_POLICY: MisfirePolicy = 'last'
/** A due time is late when its start is longer ago than this; a tick or a restart fits into it. */
export const DEFAULT_GRACE_MS = 60_000
/** The most that `all` catches up on at once: a day of quarters of an hour. */
export const DEFAULT_CATCH_UPS_MAX = 96

/** How long after its due time a firing may start at most. */
export const SCHEDULE_JITTER_MAX_MS = 3_600_000

/** How many schedules people may keep in one workspace, unless the installation says otherwise: a thousand is a busy team, a million a mistake. */
export const SCHEDULES_MAX = 1_000

export type DueSchedule = {
  readonly name: string
  /** The newest due time already decided, fired or missed. */
  readonly lastDueAt?: Date
  /** In any order; what is decided already or still ahead is left out. */
  readonly dueTimes: readonly Date[]
  readonly now: Date
  readonly misfire: MisfirePolicy
  readonly catchUpsMax?: number
  readonly graceMs?: number
  /** How long after its due time a firing starts; the due time itself never moves. */
  readonly jitterMs?: number
}

export type Firing = { readonly dueAt: Date; readonly startAt: Date; readonly key: string }
/** Both in the order of time; together they are every due time that has come, each once. */
export type FiringPlan = { readonly fire: readonly Firing[]; readonly missed: readonly Firing[] }

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
  const firing = (ms: number): Firing => {
    const dueAt = new Date(ms)
    return { dueAt, startAt: new Date(ms + jitterMs), key: scheduleKey(name, dueAt) }
  }
  return { fire: dueMs.slice(missed.length).map(firing), missed: missed.map(firing) }
}

/** How many of the late ones fire, counted from the newest: when they do not all fit, the old ones are worth least. */
function countCatchUps(misfire: MisfirePolicy, catchUpsMax: number, lateCount: number, onTimeCount: number): number {
  switch (misfire) {
    case 'skip':
      return 0
    case 'last':
      // A firing that is on time already does what the catch-up would do.
      return onTimeCount === 0 ? Math.min(1, lateCount) : 0
    case 'all':
      return Math.min(catchUpsMax, lateCount)
  }
}

/** A whole number of milliseconds from 0 to `maxMs`, so that a thousand schedules of one minute do not start as one. */
export function pickJitterMs(maxMs: number, random: Random): number {
  return Math.floor(random() * (maxMs + 1))
}

/** For a firing whose predecessor still runs: leave it out, let it wait, or start it beside. */
export const overlapPolicies = ['skip', 'queue', 'allow'] as const
export type OverlapPolicy = (typeof overlapPolicies)[number]
export type OverlapDecision = 'start' | 'queue' | 'skip'

/** One that waits is enough by default: a job that is always too slow would otherwise gather an endless queue. */
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
