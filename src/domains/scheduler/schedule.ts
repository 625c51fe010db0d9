/** Schedules, a template with a cron expression in a time zone: reads and writes `schedules`, and builds their views. */
import { z } from 'zod'
import { orNull, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { parseGuardedObject } from '#kernel/json-guard'
import { PAGE_LIMIT_DEFAULT } from '#kernel/page-limit'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { changeScheduleBody, scheduleBody } from './contract.ts'
import { pageOf, type PagedRow, type SqlReader, query } from './database.ts'
import { checkNamePage, type NamePage, parseInput } from './parse-input.ts'
import { allTemplates, requireTemplate } from './job-template.ts'
import { allJobTypes } from './job-types.ts'
import { nextOccurrences } from './next-occurrence.ts'
import { countQueued } from './queue.ts'
import { digestLines, type Requested, requireRecorded } from './requested.ts'
import { findActiveReservation } from './reservations.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import {
  defineView,
  objectView,
  readObject,
  showIdOrNull,
  showTime,
  type StoredFiring,
  type StoredJob,
  type StoredJobType,
  type StoredReservation,
  type StoredSchedule,
  type StoredTemplate,
} from './stored-rows.ts'
import { checkWork, type PreparedJob, prepareFromTemplate } from './submit-job.ts'

export const SCHEDULE_COLUMNS = `schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, last_triggered_at, next_trigger_at,
  created_at, priority, misfire_policy, overlap_policy, last_due_at, updated_at, deleted_at, requested_by`
export const FIRING_COLUMNS = `schedule_id, due_at, outcome, job_id, missed_since, decided_at`

type ScheduleRow = Omit<
  StoredSchedule,
  'last_triggered_at' | 'created_at' | 'last_due_at' | 'updated_at' | 'deleted_at'
> & { readonly now: number }
type ById = { readonly schedule_id: string }

const insertRow = query<StoredSchedule, ScheduleRow>(`
   insert into schedules (schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, next_trigger_at, created_at,
                          priority, misfire_policy, overlap_policy, updated_at, requested_by)
   values ($schedule_id, $template_id, $name, $cron_expression, $timezone, $enabled, $param_overrides, $next_trigger_at, $now,
           $priority, $misfire_policy, $overlap_policy, $now, $requested_by)
       on conflict (name) where deleted_at is null do nothing returning ${SCHEDULE_COLUMNS}`)
const updateRow = query<StoredSchedule, ScheduleRow>(`
   update or ignore schedules
      set template_id = $template_id, name = $name, cron_expression = $cron_expression, timezone = $timezone, enabled = $enabled,
          param_overrides = $param_overrides, next_trigger_at = $next_trigger_at, priority = $priority,
          misfire_policy = $misfire_policy, overlap_policy = $overlap_policy, updated_at = $now, requested_by = $requested_by
    where schedule_id = $schedule_id and deleted_at is null returning ${SCHEDULE_COLUMNS}`)
const deleteRow = query<StoredSchedule, ById & { now: number }>(`
   update schedules set enabled = 0, next_trigger_at = null, deleted_at = $now, updated_at = $now
    where schedule_id = $schedule_id and deleted_at is null returning ${SCHEDULE_COLUMNS}`)
const selectRow = query<StoredSchedule, ById>(
  `select ${SCHEDULE_COLUMNS} from schedules where schedule_id = $schedule_id and deleted_at is null`,
)
const rows = (rest: string) =>
  `select ${SCHEDULE_COLUMNS} from schedules where deleted_at is null ${rest} order by name`
const selectRows = query<StoredSchedule>(rows(''))
const selectPage = query<PagedRow<StoredSchedule>, { limit: number; after: string }>(
  pageOf(`${rows('and name > $after')} limit $limit`, 'coalesce(octet_length(param_overrides), 0)'),
)
const countInFlight = query<{ count: number }>(
  `select count(*) as count from jobs where status = 'RUNNING' and finished_at is null`,
)
const selectFirings = query<StoredFiring, ById & { limit: number }>(
  `select ${FIRING_COLUMNS} from schedule_firings where schedule_id = $schedule_id order by due_at desc limit $limit`,
)

export function requireSchedule(reader: SqlReader, scheduleId: string): Decision<StoredSchedule> {
  const found = reader.one(selectRow, { schedule_id: scheduleId })
  return found ? accept(found) : refuse('scheduler.schedule.not_found', `There is no schedule ${quote(scheduleId)}.`)
}

export function createSchedule(
  scheduler: Scheduler,
  body: z.input<typeof scheduleBody>,
  { requestedBy = null, ...requested }: Requested = {},
): Decision<StoredSchedule> {
  const parsed = parseInput(scheduleBody, body)
  if (!parsed.ok) return parsed
  const { enabled, param_overrides, ...fields } = parsed.value
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    const row = {
      ...fields,
      enabled: enabled ? 1 : 0,
      param_overrides: param_overrides && JSON.stringify(param_overrides),
    } as const
    const next = checkSchedule(tx, row, now, requested)
    if (!next.ok) return next
    const schedule_id = scheduler.deps.newId()
    const saved = tx.one(insertRow, {
      ...row,
      schedule_id,
      next_trigger_at: next.value,
      requested_by: requestedBy,
      now,
    })
    return saved ? accept(saved) : nameTaken(row.name)
  })
}

/** The requester becomes the one of the schedule's later jobs. A new time, zone or `enabled` applies from now, never from before the last decided due time. Omitted fields stay. */
export function changeSchedule(
  scheduler: Scheduler,
  scheduleId: string,
  body: z.input<typeof changeScheduleBody>,
  { requestedBy = null, ...requested }: Requested = {},
): Decision<StoredSchedule> {
  const parsed = parseInput(changeScheduleBody, body)
  if (!parsed.ok) return parsed
  return scheduler.db.write((tx) => {
    const old = requireSchedule(tx, scheduleId)
    if (!old.ok) return old
    const row = changedRow(old.value, parsed.value)
    const now = nowMs(scheduler)
    const next = checkSchedule(tx, row, now, requested)
    if (!next.ok) return next
    const timeKeys = ['cron_expression', 'timezone', 'enabled'] as const
    const isSameTime = timeKeys.every((key) => row[key] === old.value[key])
    // An undecided due time stays unless the time, zone or `enabled` changes.
    const next_trigger_at = isSameTime ? row.next_trigger_at : next.value
    const saved = tx.one(updateRow, { ...row, next_trigger_at, requested_by: requestedBy, now })
    return saved ? accept(saved) : nameTaken(row.name)
  })
}

function changedRow(
  old: StoredSchedule,
  { enabled, param_overrides, ...fields }: z.output<typeof changeScheduleBody>,
): StoredSchedule {
  const changes = Object.entries({
    ...fields,
    enabled: enabled === undefined ? undefined : enabled ? 1 : 0,
    param_overrides: param_overrides && JSON.stringify(param_overrides),
  })
  return { ...old, ...Object.fromEntries(changes.filter(([, value]) => value !== undefined)) }
}

/** The digest of what the schedule would run after these changes. */
export function digestSchedule(
  scheduler: Scheduler,
  scheduleId: string,
  changes: z.output<typeof changeScheduleBody> = {},
): Decision<string> {
  return scheduler.db.read((reader) => {
    const old = requireSchedule(reader, scheduleId)
    if (!old.ok) return old
    const prepared = prepareFiring(reader, changedRow(old.value, changes))
    return prepared.ok ? digestLines(reader, [prepared.value]) : prepared
  })
}

/** Whether a job runs what its template or its schedule makes now: the work of an author who was allowed to plan it. */
export function runsAsPlanned(scheduler: Scheduler, job: StoredJob): Decision<boolean> {
  return scheduler.db.read((reader) => {
    const schedule = job.schedule_id === null ? undefined : requireSchedule(reader, job.schedule_id)
    const template = job.template_id === null ? undefined : requireTemplate(reader, job.template_id)
    const plans = [
      schedule?.ok ? prepareFiring(reader, schedule.value) : undefined,
      template?.ok ? prepareFromTemplate(template.value, {}) : undefined,
    ]
    const [own, ...planned] = [job, ...plans.flatMap((plan) => (plan?.ok ? [plan.value] : []))].map((line) =>
      digestLines(reader, [line]),
    )
    return accept(planned.some((digest) => own?.ok && digest.ok && digest.value === own.value))
  })
}

/** Keeps the row for the jobs it fired, stops firing and frees the name. */
export function deleteSchedule(scheduler: Scheduler, scheduleId: string): Decision<StoredSchedule> {
  return scheduler.db.write((tx) => {
    const deleted = tx.one(deleteRow, { schedule_id: scheduleId, now: nowMs(scheduler) })
    return deleted ? accept(deleted) : requireSchedule(tx, scheduleId)
  })
}

type Fired = Pick<StoredSchedule, 'template_id' | 'param_overrides' | 'priority'>

/** Applies the overrides to the template's params; both may have changed since the schedule was created. */
export function prepareFiring(reader: SqlReader, schedule: Fired): Decision<PreparedJob> {
  const template = requireTemplate(reader, schedule.template_id)
  if (!template.ok) return template
  const overrides = schedule.param_overrides === null ? accept({}) : parseGuardedObject(schedule.param_overrides)
  if (!overrides.ok) return overrides
  return prepareFromTemplate(template.value, { params: overrides.value, priority: schedule.priority ?? undefined })
}

/** Returns the first due time; null for a disabled schedule. Refuses a schedule that could never create a job. */
function checkSchedule(
  reader: SqlReader,
  wanted: Fired & Pick<StoredSchedule, 'cron_expression' | 'timezone' | 'enabled'>,
  from: number,
  requested: Requested,
): Decision<number | null> {
  const prepared = prepareFiring(reader, wanted)
  if (!prepared.ok) return prepared
  const work = checkWork(reader, prepared.value)
  if (!work.ok) return work
  const recorded = requireRecorded(reader, requested, [work.value])
  if (!recorded.ok) return recorded
  const next = nextOccurrences(wanted.cron_expression, wanted.timezone, new Date(from), 1)
  if (!next.ok) return next
  return accept(wanted.enabled === 1 ? (next.value[0]?.getTime() ?? null) : null)
}

function nameTaken(name: string): Refusal {
  return refuse('scheduler.schedule.name_taken', `A schedule ${quote(name)} already exists.`, { path: 'name' })
}

export type ScheduleReport = { readonly schedule: StoredSchedule; readonly firings: readonly StoredFiring[] }

/** Reads a schedule with its newest decided due times. */
export function readSchedule(
  scheduler: Scheduler,
  scheduleId: string,
  limit = PAGE_LIMIT_DEFAULT,
): Decision<ScheduleReport> {
  return scheduler.db.read((reader) => {
    const schedule = requireSchedule(reader, scheduleId)
    if (!schedule.ok) return schedule
    return accept({ schedule: schedule.value, firings: reader.all(selectFirings, { schedule_id: scheduleId, limit }) })
  })
}

export function listSchedules(
  scheduler: Scheduler,
  page: NamePage = {},
): Decision<readonly PagedRow<StoredSchedule>[]> {
  const checked = checkNamePage(page)
  return checked.ok ? scheduler.db.read((reader) => accept(reader.all(selectPage, checked.value))) : checked
}

/** All of them, for a program on this machine. */
export type Plans = {
  readonly jobTypes: readonly StoredJobType[]
  readonly templates: readonly StoredTemplate[]
  readonly schedules: readonly StoredSchedule[]
}

/** Reads everything that creates jobs, from one snapshot. */
export function readPlans(scheduler: Scheduler): Decision<Plans> {
  return scheduler.db.read((reader) =>
    accept({
      jobTypes: allJobTypes(reader),
      templates: allTemplates(reader),
      schedules: reader.all(selectRows),
    }),
  )
}

export type QueueStatus = ReturnType<typeof countQueued> & {
  readonly inFlight: number
  /** The ACTIVE reservation, which pauses the queue. */
  readonly reservation: StoredReservation | null
}

export function readStatus(scheduler: Scheduler): Decision<QueueStatus> {
  return scheduler.db.read((reader) =>
    accept({
      ...countQueued(reader),
      inFlight: reader.one(countInFlight)?.count ?? 0,
      reservation: findActiveReservation(reader) ?? null,
    }),
  )
}

const schedule = defineView<StoredSchedule>()({
  schedule_id: [z.string(), (row) => encodeId('schedule', row.schedule_id)],
  template_id: [z.string(), (row) => encodeId('job_template', row.template_id)],
  name: [z.string(), (row) => row.name],
  cron_expression: [z.string(), (row) => row.cron_expression],
  timezone: [z.string(), (row) => row.timezone],
  enabled: [z.boolean(), (row) => row.enabled === 1],
  param_overrides: [objectView.nullable(), (row) => orNull(row.param_overrides, readObject)],
  priority: [z.int().nullable(), (row) => row.priority],
  misfire_policy: [z.enum(['skip', 'last', 'all']), (row) => row.misfire_policy],
  overlap_policy: [z.enum(['skip', 'queue']), (row) => row.overlap_policy],
  last_triggered_at: [timeView().nullable(), (row) => orNull(row.last_triggered_at, showTime)],
  next_trigger_at: [timeView().nullable(), (row) => orNull(row.next_trigger_at, showTime)],
  requested_by: [z.string().nullable(), (row) => row.requested_by],
  created_at: [timeView(), (row) => showTime(row.created_at)],
})
export const scheduleView = schedule.schema.meta({ id: 'SchedulerSchedule' })
export const toScheduleView = schedule.show

const firing = defineView<StoredFiring>()({
  due_at: [timeView(), (row) => showTime(row.due_at)],
  outcome: [z.enum(['fired', 'overlapped', 'missed']), (row) => row.outcome],
  job_id: [z.string().nullable(), (row) => showIdOrNull('job', row.job_id)],
  missed_since: [timeView().nullable(), (row) => orNull(row.missed_since, showTime)],
  decided_at: [timeView(), (row) => showTime(row.decided_at)],
})
export const firingView = firing.schema.meta({ id: 'SchedulerFiring' })
export const toFiringView = firing.show
