/** Fires due schedules: each due time becomes one job or one record of why not, never both and never twice. */
import { type CronFields, parseCron } from '#kernel/cron'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { decideOverlap, DEFAULT_CATCH_UPS_MAX, planFirings } from '#kernel/schedule'
import { query, type WriteTx } from './database.ts'
import { listRecentDueTimes, nextOccurrence } from './next-occurrence.ts'
import { notify } from './notifications.ts'
import { FIRING_COLUMNS, prepareFiring, requireSchedule, SCHEDULE_COLUMNS } from './schedule.ts'
import { nowMs, requireRecovered, type Scheduler } from './scheduler.ts'
import type { StoredFiring, StoredSchedule } from './stored-rows.ts'
import { addJob } from './submit-job.ts'

type ById = { readonly schedule_id: string }
type NewFiring = Omit<StoredFiring, 'decided_at'> & { readonly now: number }

/** Earliest first; equal times by id, so that the order is deterministic. */
const selectDue = query<StoredSchedule, { now: number }>(
  `select ${SCHEDULE_COLUMNS} from schedules where enabled = 1 and next_trigger_at <= $now order by next_trigger_at, schedule_id`,
)
const advanceRow = query<
  StoredSchedule,
  ById & { last_due_at: number | null; next_trigger_at: number | null; last_triggered_at: number | null }
>(`
   update schedules set last_due_at = nullif(max(coalesce($last_due_at, 0), coalesce(last_due_at, 0)), 0), next_trigger_at = $next_trigger_at,
          last_triggered_at = coalesce($last_triggered_at, last_triggered_at)
    where schedule_id = $schedule_id returning ${SCHEDULE_COLUMNS}`)
/** Stops a schedule that cannot be read until it is corrected. */
const haltRow = query<never, ById>(`update schedules set next_trigger_at = null where schedule_id = $schedule_id`)
/** Includes retries: while one is open, the previous firing has not ended. */
const selectOpenJobs = query<{ running: number; queued: number }, ById>(`
   select count(*) filter (where status = 'RUNNING') as running, count(*) filter (where status = 'QUEUED') as queued
     from jobs where schedule_id = $schedule_id and schedule_id is not null and finished_at is null and cancelled_at is null`)
const insertFiring = query<
  StoredFiring,
  ById & { due_at: number; outcome: string; job_id: string | null; missed_since: number | null; now: number }
>(`
   insert into schedule_firings (schedule_id, due_at, outcome, job_id, missed_since, decided_at)
   values ($schedule_id, $due_at, $outcome, $job_id, $missed_since, $now) returning ${FIRING_COLUMNS}`)
const selectFiring = query<StoredFiring, ById & { due_at: number }>(
  `select ${FIRING_COLUMNS} from schedule_firings where schedule_id = $schedule_id and due_at = $due_at`,
)

/** Twice the size of one catch-up: nothing is lost, and the backlog of a schedule that is always too slow stays bounded. */
const WAITING_MAX = 2 * DEFAULT_CATCH_UPS_MAX

/** Fires one due time, which must be the next undecided one. Returns the stored decision for an earlier one. */
export function fireScheduleAt(scheduler: Scheduler, scheduleId: string, dueAt: Date): Decision<StoredFiring> {
  const ready = requireRecovered(scheduler)
  if (!ready.ok) return ready
  return scheduler.db.write((tx) => {
    const decided = tx.one(selectFiring, { schedule_id: scheduleId, due_at: dueAt.getTime() })
    if (decided) return accept(decided)
    const schedule = requireSchedule(tx, scheduleId)
    if (!schedule.ok) return schedule
    const now = nowMs(scheduler)
    const isNext = schedule.value.enabled === 1 && schedule.value.next_trigger_at === dueAt.getTime()
    if (!isNext || dueAt.getTime() > now) return refuseNotDue(schedule.value, dueAt)
    const fields = parseCron(schedule.value.cron_expression)
    if (!fields.ok) return fields
    const firing = fireDue(scheduler, tx, schedule.value, dueAt.getTime(), now)
    advance(tx, schedule.value, fields.value, [firing], now)
    return accept(firing)
  })
}

/** Adds the job and records the due time; the caller advances the schedule in the same transaction. */
function fireDue(
  scheduler: Scheduler,
  tx: WriteTx,
  schedule: StoredSchedule,
  dueAt: number,
  now: number,
): StoredFiring {
  const { schedule_id, overlap_policy } = schedule
  const open = tx.one(selectOpenJobs, { schedule_id }) ?? { running: 0, queued: 0 }
  if (decideOverlap(overlap_policy, open.running, open.queued, WAITING_MAX) === 'skip') {
    return record(tx, { schedule_id, due_at: dueAt, outcome: 'overlapped', job_id: null, missed_since: null, now })
  }
  const prepared = prepareFiring(tx, schedule)
  if (!prepared.ok) {
    return recordMissed(tx, schedule, { since: dueAt, until: dueAt, why: prepared.reason }, now)
  }
  scheduler.pass('schedule.before_insert')
  const job = addJob(scheduler, tx, prepared.value, { scheduleId: schedule_id, requestedBy: schedule.requested_by })
  const firing = record(tx, {
    schedule_id,
    due_at: dueAt,
    outcome: 'fired',
    job_id: job.job_id,
    missed_since: null,
    now,
  })
  scheduler.pass('schedule.after_insert')
  return firing
}

type Missed = { readonly since: number; readonly until: number; readonly why: string }

/** Writes one row for all missed due times up to `until`. */
function recordMissed(tx: WriteTx, schedule: StoredSchedule, { since, until, why }: Missed, now: number): StoredFiring {
  const { schedule_id, name } = schedule
  const payload = { schedule_id, name, missed_since: since, missed_until: until, why }
  notify(tx, { kind: 'schedule_missed', about: `${schedule_id}:${until}`, payload }, now)
  return record(tx, { schedule_id, due_at: until, outcome: 'missed', job_id: null, missed_since: since, now })
}

/** Sets the next due time: after the newest decided one, or after now if none was decided. */
function advance(
  tx: WriteTx,
  schedule: StoredSchedule,
  fields: CronFields,
  decided: readonly StoredFiring[],
  now: number,
): void {
  const newest = decided.at(-1)?.due_at
  const next = nextOccurrence(fields, schedule.timezone, new Date(newest ?? now))
  tx.run(advanceRow, {
    schedule_id: schedule.schedule_id,
    last_due_at: newest ?? null,
    next_trigger_at: next?.getTime() ?? null,
    last_triggered_at: decided.some(({ outcome }) => outcome === 'fired') ? now : null,
  })
  if (!next) notifyEnded(tx, schedule, 'There is no due time within five years.', now)
}

function notifyEnded(tx: WriteTx, { schedule_id, name, updated_at }: StoredSchedule, why: string, now: number): void {
  notify(
    tx,
    { kind: 'schedule_ended', about: `${schedule_id}:${updated_at}`, payload: { schedule_id, name, why } },
    now,
  )
}

function record(tx: WriteTx, firing: NewFiring): StoredFiring {
  const saved = tx.one(insertFiring, firing)
  if (!saved) throw new KernelFault('scheduler.broken', 'An insert without conditions returned no row.')
  return saved
}

function refuseNotDue(schedule: StoredSchedule, dueAt: Date): Decision<never> {
  return refuse('scheduler.schedule.not_due', `${dueAt.toISOString()} is not the next due time of this schedule.`, {
    facts: {
      enabled: schedule.enabled === 1,
      next: schedule.next_trigger_at === null ? null : new Date(schedule.next_trigger_at).toISOString(),
    },
  })
}

/** More than one catch-up plus the two or three that are on time, so that all older due times are known to be missed. */
const KEEP = DEFAULT_CATCH_UPS_MAX + 4

export function fireDueSchedules(scheduler: Scheduler): Decision<readonly StoredFiring[]> {
  const ready = requireRecovered(scheduler)
  if (!ready.ok) return ready
  const due = scheduler.db.read((reader) => accept(reader.all(selectDue, { now: nowMs(scheduler) })))
  if (!due.ok) return due
  const firings: StoredFiring[] = []
  for (const { schedule_id } of due.value) {
    const fired = scheduler.db.write((tx) => accept(decideSchedule(scheduler, tx, schedule_id)))
    if (!fired.ok) return fired
    firings.push(...fired.value)
  }
  return accept(firings)
}

/** Reads the schedule again inside the transaction: another process may have disabled it. */
function decideSchedule(scheduler: Scheduler, tx: WriteTx, scheduleId: string): readonly StoredFiring[] {
  const now = nowMs(scheduler)
  const found = requireSchedule(tx, scheduleId)
  if (!found.ok || found.value.enabled === 0 || (found.value.next_trigger_at ?? Infinity) > now) return []
  const fields = parseCron(found.value.cron_expression)
  if (fields.ok) return fireUpTo(scheduler, tx, found.value, fields.value, now)
  // The row cannot be read: the schedule is stopped, so that the others continue.
  tx.run(haltRow, { schedule_id: scheduleId })
  notifyEnded(tx, found.value, fields.reason, now)
  return []
}

function fireUpTo(
  scheduler: Scheduler,
  tx: WriteTx,
  schedule: StoredSchedule,
  fields: CronFields,
  now: number,
): readonly StoredFiring[] {
  const first = new Date(schedule.next_trigger_at ?? now)
  const { times, hasOlder } = listRecentDueTimes(fields, schedule.timezone, first, new Date(now), KEEP)
  const { fire, missed } = planFirings({
    name: schedule.schedule_id,
    // A due time may have been decided already, while the clock was ahead.
    dueTimes: times.filter(
      (due) => !tx.one(selectFiring, { schedule_id: schedule.schedule_id, due_at: due.getTime() }),
    ),
    now: new Date(now),
    misfire: schedule.misfire_policy,
  })
  const firings: StoredFiring[] = []
  const lastMissed = missed.at(-1)
  if (lastMissed) {
    const since = hasOlder ? first : (missed[0] ?? lastMissed).dueAt
    const why = 'The scheduler was not running.'
    firings.push(recordMissed(tx, schedule, { since: since.getTime(), until: lastMissed.dueAt.getTime(), why }, now))
  }
  for (const { dueAt } of fire) firings.push(fireDue(scheduler, tx, schedule, dueAt.getTime(), now))
  // An empty list means that the rules of the zone changed after the time was computed.
  advance(tx, schedule, fields, firings, now)
  return firings
}
