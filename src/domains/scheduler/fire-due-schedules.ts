/** One tick: every schedule whose time has come is decided up to now, each in a transaction of its own. */
import { type CronFields, parseCron } from '#kernel/cron-fields'
import { accept, type Decision } from '#kernel/refusal'
import { DEFAULT_CATCH_UPS_MAX, planFirings } from '#kernel/schedule'
import type { Tx } from './database.ts'
import { advance, fireDue, recordMissed, setAside } from './fire-schedule.ts'
import { listRecentDueTimes } from './next-occurrence.ts'
import { listDueSchedules, requireSchedule } from './schedule-repository.ts'
import { nowMs, requireRecovered, type Scheduler } from './scheduler.ts'
import type { StoredFiring, StoredSchedule } from './stored-rows.ts'

/** More than catch up at once plus the two or three that are on time, so that the rest is known to be missed. */
const KEEP = DEFAULT_CATCH_UPS_MAX + 4

export function fireDueSchedules(scheduler: Scheduler): Decision<readonly StoredFiring[]> {
  const ready = requireRecovered(scheduler)
  if (!ready.ok) return ready
  const due = scheduler.db.read((reader) => listDueSchedules(reader, nowMs(scheduler)))
  if (!due.ok) return due
  const firings: StoredFiring[] = []
  for (const { schedule_id } of due.value) {
    const fired = scheduler.db.write((tx) => accept(decideSchedule(scheduler, tx, schedule_id)))
    if (!fired.ok) return fired
    firings.push(...fired.value)
  }
  return accept(firings)
}

/** Read again inside the transaction: another process may have switched it off. */
function decideSchedule(scheduler: Scheduler, tx: Tx, scheduleId: string): readonly StoredFiring[] {
  const now = nowMs(scheduler)
  const found = requireSchedule(tx, scheduleId)
  if (!found.ok || found.value.enabled === 0 || (found.value.next_trigger_at ?? Infinity) > now) return []
  const fields = parseCron(found.value.cron_expression)
  if (fields.ok) return fireUpTo(scheduler, tx, found.value, fields.value, now)
  setAside(tx, found.value, fields.reason, now)
  return []
}

function fireUpTo(
  scheduler: Scheduler,
  tx: Tx,
  schedule: StoredSchedule,
  fields: CronFields,
  now: number,
): readonly StoredFiring[] {
  const first = new Date(schedule.next_trigger_at ?? now)
  const { times, hasOlder } = listRecentDueTimes(fields, schedule.timezone, first, new Date(now), KEEP)
  const { fire, missed } = planFirings({
    name: schedule.schedule_id,
    dueTimes: times,
    now: new Date(now),
    misfire: schedule.misfire_policy,
  })
  const firings: StoredFiring[] = []
  const lastMissed = missed.at(-1)
  if (lastMissed) {
    const since = hasOlder ? first : (missed[0] ?? lastMissed).dueAt
    const why = 'the scheduler was not running'
    firings.push(recordMissed(tx, schedule, { since: since.getTime(), until: lastMissed.dueAt.getTime(), why }, now))
  }
  for (const { dueAt } of fire) firings.push(fireDue(scheduler, tx, schedule, dueAt.getTime(), now))
  // Without any: the rules of the zone have changed since the time was computed.
  advance(tx, schedule, fields, firings, now)
  return firings
}
