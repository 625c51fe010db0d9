/**
 * A schedule is an ordinary process: its turn decides the due times that have passed, opens a firing for each that
 * fires, and waits until the next. A firing is a process named after schedule and due time, so one due time has
 * one firing however many workers check it.
 */
import { parseCron, parseTimeZone } from '#kernel/cron'
import { scheduleKey } from '#kernel/idempotency-key'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { decideOverlap, misfirePolicies, overlapPolicies, planFirings, SCHEDULE_JITTER_MAX_MS } from '#kernel/schedule'
import { dueTimes, nextDueTime } from './due-time.ts'
import type { Next, RuntimeSchedule } from './port.ts'
import { isKind, isProcessId } from './process.ts'

/** The kind under which adapters register schedules. */
export const SCHEDULE_KIND = 'schedule'

/** The state of a schedule between two turns. */
export type ScheduleLine = {
  readonly spec: RuntimeSchedule
  /** The newest due time decided; initially the time at which the schedule was created. */
  readonly decidedUntil: Date
  readonly lastDueAt: Date | null
  /** A firing that waits for the previous one to end. */
  readonly heldDueAt: Date | null
  readonly firedCount: number
  readonly missedCount: number
}

/** The writes of one turn, in one transaction: the schedule's line, and a wake for each firing. */
type ScheduleTurn = {
  readonly line: ScheduleLine
  readonly fire: readonly { readonly id: string; readonly dueAt: Date }[]
  readonly next: Next
}

export function decideSchedule(spec: RuntimeSchedule, now: Date): Decision<ScheduleLine> {
  const { name, zone = 'UTC', kind, overlap, missed, jitterMs = 0 } = spec
  // The id of every firing contains the name, with its colons escaped, and the due time.
  if (!isProcessId(name) || !isProcessId(scheduleKey(name, now)))
    return invalid(name, 'needs a short, plain name', 'name')
  if (!isKind(kind)) return invalid(name, 'needs a kind of process', 'kind')
  if (!overlapPolicies.includes(overlap)) return invalid(name, `needs overlap ${overlapPolicies.join(', ')}`, 'overlap')
  if (!misfirePolicies.includes(missed)) return invalid(name, `needs missed ${misfirePolicies.join(', ')}`, 'missed')
  if (!Number.isInteger(jitterMs) || jitterMs < 0 || jitterMs > SCHEDULE_JITTER_MAX_MS) {
    return invalid(name, 'needs a jitter from 0 to one hour', 'jitterMs')
  }
  const knownZone = parseTimeZone(zone)
  if (!knownZone.ok) return knownZone
  const fields = parseCron(spec.cron)
  if (!fields.ok) return fields
  if (nextDueTime(fields.value, zone, now) === undefined) {
    return refuse('cron_never', `The schedule ${name} is not due within five years.`, { path: 'cron' })
  }
  return accept({ spec, decidedUntil: now, lastDueAt: null, heldDueAt: null, firedCount: 0, missedCount: 0 })
}

function invalid(name: string, what: string, path: string): Decision<never> {
  return refuse('runtime.schedule.invalid', `A schedule ${what}: ${name.slice(0, 64)}.`, { path })
}

/** Returns null only when the expression has no next time, which a valid one always has. */
export function nextFiringAt({ spec, decidedUntil }: ScheduleLine): Date | null {
  const fields = parseCron(spec.cron)
  const due = fields.ok ? nextDueTime(fields.value, spec.zone ?? 'UTC', decidedUntil) : undefined
  return due ? new Date(due.getTime() + (spec.jitterMs ?? 0)) : null
}

/** Plans one turn. `openCount` is the number of firings that have not ended. */
export function planSchedule(line: ScheduleLine, openCount: number, now: Date): ScheduleTurn {
  const { spec } = line
  // A due time in the future was decided while the clock was ahead; those between now and then are not decided.
  const decidedUntil = line.decidedUntil > now ? now : line.decidedUntil
  const fields = parseCron(spec.cron)
  if (!fields.ok) return { line, fire: [], next: { t: 'wait', until: null } }
  const { jitterMs = 0 } = spec
  const due = dueTimes(fields.value, spec.zone ?? 'UTC', decidedUntil, new Date(now.getTime() - jitterMs))
  const plan = planFirings({
    name: spec.name,
    dueTimes: due,
    lastDueAt: decidedUntil,
    now,
    misfire: spec.missed,
    jitterMs,
  })

  const fire: { id: string; dueAt: Date }[] = []
  let held = line.heldDueAt
  let [open, missedCount] = [openCount, line.missedCount + plan.missed.length]
  const start = (dueAt: Date) => {
    fire.push({ id: scheduleKey(spec.name, dueAt), dueAt })
    open += 1
  }
  if (held !== null && open === 0) {
    start(held)
    held = null
  }
  for (const { dueAt } of plan.fire) {
    const decision = decideOverlap(spec.overlap, open, held === null ? 0 : 1)
    if (decision === 'start') start(dueAt)
    else if (decision === 'queue') held = dueAt
    else missedCount += 1
  }
  const decided = {
    ...line,
    decidedUntil: due.at(-1) ?? decidedUntil,
    lastDueAt: due.at(-1) ?? line.lastDueAt,
    heldDueAt: held,
    firedCount: line.firedCount + fire.length,
    missedCount,
  }
  return { line: decided, fire, next: { t: 'wait', until: nextFiringAt(decided) } }
}
