/**
 * Corrects what was written while the clock was ahead, after it has been set back: the loop runs it at its start and when the clock reads earlier
 * than before. What is decided stays decided; a due time that fired ahead of its time does not fire again.
 */
import { AHEAD_MAX_MS } from '#kernel/clock'
import { parseCron } from '#kernel/cron'
import { accept, type Decision } from '#kernel/refusal'
import { query } from './database.ts'
import { nextOccurrence } from './next-occurrence.ts'
import { notify } from './notifications.ts'
import { SCHEDULE_COLUMNS } from './schedule.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredSchedule } from './stored-rows.ts'

const selectWaiting = query<StoredSchedule, { now: number }>(
  `select ${SCHEDULE_COLUMNS} from schedules where enabled = 1 and next_trigger_at > $now`,
)
const setNext = query<never, { schedule_id: string; next_trigger_at: number }>(
  `update schedules set next_trigger_at = $next_trigger_at where schedule_id = $schedule_id`,
)
/** A retry counts its pause from its creation. A start time that a person has set is kept. */
const releaseRetries = query<never, { ahead: number }>(
  `update jobs set hold = null where status = 'QUEUED' and hold = 'delay' and retry_of is not null and created_at > $ahead`,
)
const hastenNotifications = query<never, { now: number; longest: number }>(
  `update notifications set next_attempt_at = $now where status = 'PENDING' and next_attempt_at > $longest`,
)
/** Longer than the longest pause before a notification is sent again, which is 720 s. */
const NOTICE_MAX_MS = 900_000

/** Returns how many schedules, retries and notifications it has corrected. */
export function repairTimes(scheduler: Scheduler): Decision<number> {
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    let repaired = 0
    for (const { schedule_id, cron_expression, timezone, name, next_trigger_at } of tx.all(selectWaiting, { now })) {
      const fields = parseCron(cron_expression)
      const next = fields.ok ? nextOccurrence(fields.value, timezone, new Date(now))?.getTime() : undefined
      // By a right clock the next due time is the next one of the expression, never a later one.
      if (next === undefined || next_trigger_at === null || next_trigger_at <= next) continue
      tx.run(setNext, { schedule_id, next_trigger_at: next })
      const payload = { schedule_id, name, moved_back_ms: next_trigger_at - next }
      notify(tx, { kind: 'clock_moved_back', about: `${schedule_id}:${next_trigger_at}`, payload }, now)
      repaired += 1
    }
    repaired += tx.run(releaseRetries, { ahead: now + AHEAD_MAX_MS })
    repaired += tx.run(hastenNotifications, { now, longest: now + NOTICE_MAX_MS })
    return accept(repaired)
  })
}
