/** Schedules, a template with a cron expression in a time zone: reads and writes `schedules` and `schedule_firings`. */
import type { z } from 'zod'
import { parseGuardedObject } from '#kernel/json-guard'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { changeScheduleBody, scheduleBody } from './contract.ts'
import { type SqlReader, query, type WriteTx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { requireTemplate } from './job-template.ts'
import { nextOccurrences } from './next-occurrence.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredFiring, StoredSchedule } from './stored-rows.ts'
import { checkWork, prepareFromTemplate } from './submit-job.ts'

const COLUMNS = `schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, last_triggered_at, next_trigger_at,
  created_at, priority, misfire_policy, overlap_policy, last_due_at, updated_at, deleted_at`
const FIRING_COLUMNS = `schedule_id, due_at, outcome, job_id, missed_since, decided_at`

type ScheduleRow = {
  readonly schedule_id: string
  readonly template_id: string
  readonly name: string
  readonly cron_expression: string
  readonly timezone: string
  readonly enabled: number
  readonly param_overrides: string | null
  readonly next_trigger_at: number | null
  readonly priority: number | null
  readonly misfire_policy: string
  readonly overlap_policy: string
  readonly now: number
}
type ById = { readonly schedule_id: string }

const insertRow = query<
  StoredSchedule,
  ScheduleRow
>(`insert into schedules (schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, next_trigger_at, created_at,
                          priority, misfire_policy, overlap_policy, updated_at)
   values ($schedule_id, $template_id, $name, $cron_expression, $timezone, $enabled, $param_overrides, $next_trigger_at, $now,
           $priority, $misfire_policy, $overlap_policy, $now)
       on conflict (name) where deleted_at is null do nothing returning ${COLUMNS}`)
const updateRow = query<StoredSchedule, ScheduleRow>(`update or ignore schedules
      set template_id = $template_id, name = $name, cron_expression = $cron_expression, timezone = $timezone, enabled = $enabled,
          param_overrides = $param_overrides, next_trigger_at = $next_trigger_at, priority = $priority,
          misfire_policy = $misfire_policy, overlap_policy = $overlap_policy, updated_at = $now
    where schedule_id = $schedule_id and deleted_at is null returning ${COLUMNS}`)
const deleteRow = query<
  StoredSchedule,
  ById & { now: number }
>(`update schedules set enabled = 0, next_trigger_at = null, deleted_at = $now, updated_at = $now
    where schedule_id = $schedule_id and deleted_at is null returning ${COLUMNS}`)
const selectRow = query<StoredSchedule, ById>(
  `select ${COLUMNS} from schedules where schedule_id = $schedule_id and deleted_at is null`,
)
const selectRows = query<StoredSchedule>(`select ${COLUMNS} from schedules where deleted_at is null order by name`)
const selectDue = query<StoredSchedule, { now: number }>(
  `select ${COLUMNS} from schedules where enabled = 1 and next_trigger_at <= $now order by next_trigger_at, schedule_id`,
)
const advanceRow = query<
  StoredSchedule,
  ById & { last_due_at: number | null; next_trigger_at: number | null; last_triggered_at: number | null }
>(`update schedules set last_due_at = coalesce($last_due_at, last_due_at), next_trigger_at = $next_trigger_at,
          last_triggered_at = coalesce($last_triggered_at, last_triggered_at)
    where schedule_id = $schedule_id returning ${COLUMNS}`)
const haltRow = query<never, ById>(`update schedules set next_trigger_at = null where schedule_id = $schedule_id`)
const selectOpenJobs = query<
  { running: number; queued: number },
  ById
>(`select count(*) filter (where status = 'RUNNING') as running, count(*) filter (where status = 'QUEUED') as queued
     from jobs where schedule_id = $schedule_id and schedule_id is not null and finished_at is null and cancelled_at is null`)
const insertFiringRow = query<
  StoredFiring,
  ById & { due_at: number; outcome: string; job_id: string | null; missed_since: number | null; now: number }
>(`insert into schedule_firings (schedule_id, due_at, outcome, job_id, missed_since, decided_at)
   values ($schedule_id, $due_at, $outcome, $job_id, $missed_since, $now) returning ${FIRING_COLUMNS}`)
const selectFiring = query<StoredFiring, ById & { due_at: number }>(
  `select ${FIRING_COLUMNS} from schedule_firings where schedule_id = $schedule_id and due_at = $due_at`,
)
const selectFirings = query<StoredFiring, ById & { limit: number }>(
  `select ${FIRING_COLUMNS} from schedule_firings where schedule_id = $schedule_id order by due_at desc limit $limit`,
)

/** Returns undefined when another schedule has the name. */
function insertSchedule(tx: WriteTx, row: ScheduleRow): StoredSchedule | undefined {
  return tx.one(insertRow, row)
}

function saveSchedule(tx: WriteTx, row: ScheduleRow): StoredSchedule | undefined {
  return tx.one(updateRow, row)
}

function saveDeleted(tx: WriteTx, scheduleId: string, now: number): StoredSchedule | undefined {
  return tx.one(deleteRow, { schedule_id: scheduleId, now })
}

export function requireSchedule(reader: SqlReader, scheduleId: string): Decision<StoredSchedule> {
  const found = reader.one(selectRow, { schedule_id: scheduleId })
  return found ? accept(found) : refuse('scheduler.schedule.not_found', `There is no schedule ${quote(scheduleId)}.`)
}

export function listSchedules(reader: SqlReader): StoredSchedule[] {
  return reader.all(selectRows)
}

/** Earliest first; equal times by id, so that the order is deterministic. */
export function listDueSchedules(reader: SqlReader, now: number): StoredSchedule[] {
  return reader.all(selectDue, { now })
}

export type Advance = {
  readonly lastDueAt: number | null
  readonly nextTriggerAt: number | null
  readonly triggeredAt: number | null
}

export function saveAdvanced(
  tx: WriteTx,
  scheduleId: string,
  { lastDueAt, nextTriggerAt, triggeredAt }: Advance,
): void {
  tx.one(advanceRow, {
    schedule_id: scheduleId,
    last_due_at: lastDueAt,
    next_trigger_at: nextTriggerAt,
    last_triggered_at: triggeredAt,
  })
}

/** Stops a schedule that cannot be read until it is corrected. */
export function saveWithoutNext(tx: WriteTx, scheduleId: string): void {
  tx.run(haltRow, { schedule_id: scheduleId })
}

/** Includes retries: while one is open, the previous firing has not ended. */
export function countOpenJobs(
  reader: SqlReader,
  scheduleId: string,
): { readonly running: number; readonly queued: number } {
  return reader.one(selectOpenJobs, { schedule_id: scheduleId }) ?? { running: 0, queued: 0 }
}

export function insertFiring(
  tx: WriteTx,
  firing: Omit<StoredFiring, 'decided_at'> & { readonly now: number },
): StoredFiring | undefined {
  const { schedule_id, due_at, outcome, job_id, missed_since, now } = firing
  return tx.one(insertFiringRow, { schedule_id, due_at, outcome, job_id, missed_since, now })
}

export function findFiring(reader: SqlReader, scheduleId: string, dueAt: number): StoredFiring | undefined {
  return reader.one(selectFiring, { schedule_id: scheduleId, due_at: dueAt })
}

/** Newest first. */
export function listFirings(reader: SqlReader, scheduleId: string, limit: number): StoredFiring[] {
  return reader.all(selectFirings, { schedule_id: scheduleId, limit })
}

type Wanted = z.output<typeof scheduleBody>

export function createSchedule(scheduler: Scheduler, body: z.input<typeof scheduleBody>): Decision<StoredSchedule> {
  const parsed = parseInput(scheduleBody, body)
  if (!parsed.ok) return parsed
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    const next = checkSchedule(tx, parsed.value, now)
    if (!next.ok) return next
    const saved = insertSchedule(tx, {
      ...rowOf(parsed.value),
      schedule_id: scheduler.deps.newId(),
      next_trigger_at: next.value,
      now,
    })
    return saved ? accept(saved) : nameTaken(parsed.value.name)
  })
}

/** A new time, zone or `enabled` applies from now, never from before the last decided due time. */
export function changeSchedule(
  scheduler: Scheduler,
  scheduleId: string,
  body: z.input<typeof changeScheduleBody>,
): Decision<StoredSchedule> {
  const parsed = parseInput(changeScheduleBody, body)
  if (!parsed.ok) return parsed
  return scheduler.db.write((tx) => {
    const old = requireSchedule(tx, scheduleId)
    if (!old.ok) return old
    const before = wantedOf(old.value)
    if (!before.ok) return before
    const wanted = merge(before.value, parsed.value)
    const now = nowMs(scheduler)
    const next = checkSchedule(tx, wanted, Math.max(now, old.value.last_due_at ?? now))
    if (!next.ok) return next
    const isSameTime = (['cron_expression', 'timezone', 'enabled'] as const).every(
      (key) => wanted[key] === before.value[key],
    )
    // An undecided due time stays unless the time, zone or `enabled` changes.
    const next_trigger_at = isSameTime ? old.value.next_trigger_at : next.value
    const saved = saveSchedule(tx, { ...rowOf(wanted), schedule_id: scheduleId, next_trigger_at, now })
    return saved ? accept(saved) : nameTaken(wanted.name)
  })
}

/** Keeps the row for the jobs it fired, stops firing and frees the name. */
export function deleteSchedule(scheduler: Scheduler, scheduleId: string): Decision<StoredSchedule> {
  return scheduler.db.write((tx) => {
    const deleted = saveDeleted(tx, scheduleId, nowMs(scheduler))
    return deleted ? accept(deleted) : requireSchedule(tx, scheduleId)
  })
}

/** Returns the first due time; null for a disabled schedule. Refuses a schedule that could never create a job. */
function checkSchedule(tx: WriteTx, wanted: Wanted, from: number): Decision<number | null> {
  const template = requireTemplate(tx, wanted.template_id)
  if (!template.ok) return template
  const prepared = prepareFromTemplate(template.value, { params: wanted.param_overrides ?? {} })
  if (!prepared.ok) return prepared
  const work = checkWork(tx, prepared.value)
  if (!work.ok) return work
  const next = nextOccurrences(wanted.cron_expression, wanted.timezone, new Date(from), 1)
  if (!next.ok) return next
  return accept(wanted.enabled ? (next.value[0]?.getTime() ?? null) : null)
}

function rowOf(wanted: Wanted) {
  const { template_id, name, cron_expression, timezone, priority, misfire_policy, overlap_policy } = wanted
  const param_overrides = wanted.param_overrides === null ? null : JSON.stringify(wanted.param_overrides)
  const enabled = wanted.enabled ? 1 : 0
  return {
    template_id,
    name,
    cron_expression,
    timezone,
    enabled,
    param_overrides,
    priority,
    misfire_policy,
    overlap_policy,
  }
}

function wantedOf(stored: StoredSchedule): Decision<Wanted> {
  const overrides = stored.param_overrides === null ? accept(null) : parseGuardedObject(stored.param_overrides)
  if (!overrides.ok) return overrides
  const { template_id, name, cron_expression, timezone, priority, misfire_policy, overlap_policy } = stored
  const enabled = stored.enabled === 1
  return accept({
    template_id,
    name,
    cron_expression,
    timezone,
    enabled,
    param_overrides: overrides.value,
    priority,
    misfire_policy,
    overlap_policy,
  })
}

/** Omitted fields stay unchanged. */
function merge(before: Wanted, changes: z.output<typeof changeScheduleBody>): Wanted {
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
  return { ...before, ...given }
}

function nameTaken(name: string): Refusal {
  return refuse('scheduler.schedule.name_taken', `A schedule ${quote(name)} already exists.`, { path: 'name' })
}
