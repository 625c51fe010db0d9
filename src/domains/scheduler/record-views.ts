/** Templates, schedules, reservations, notifications, job types and self-checks as callers see them. */
import { z } from 'zod'
import { timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import type { SelfCheck } from './check-invariants.ts'
import { objectView, readObject, showIdOrNull, showTime, showTimeOrNull } from './job-views.ts'
import {
  notificationKinds,
  type StoredFiring,
  type StoredJobType,
  type StoredJobNotification,
  type StoredReservation,
  type StoredSchedule,
  type StoredTemplate,
} from './stored-rows.ts'

export const templateView = z
  .object({
    template_id: z.string(),
    name: z.string(),
    job_type: z.string(),
    params: objectView,
    params_schema: objectView.nullable(),
    priority: z.int(),
    created_at: timeView(),
    updated_at: timeView(),
  })
  .meta({ id: 'SchedulerJobTemplate' })
export function toTemplateView(row: StoredTemplate): z.infer<typeof templateView> {
  return {
    template_id: encodeId('job_template', row.template_id),
    name: row.name,
    job_type: row.job_type,
    params: readObject(row.params),
    params_schema: row.params_schema === null ? null : readObject(row.params_schema),
    priority: row.priority,
    created_at: showTime(row.created_at),
    updated_at: showTime(row.updated_at),
  }
}

export const scheduleView = z
  .object({
    schedule_id: z.string(),
    template_id: z.string(),
    name: z.string(),
    cron_expression: z.string(),
    timezone: z.string(),
    enabled: z.boolean(),
    param_overrides: objectView.nullable(),
    priority: z.int().nullable(),
    misfire_policy: z.enum(['skip', 'last', 'all']),
    overlap_policy: z.enum(['skip', 'queue']),
    last_triggered_at: timeView().nullable(),
    next_trigger_at: timeView().nullable(),
    created_at: timeView(),
  })
  .meta({ id: 'SchedulerSchedule' })
export function toScheduleView(row: StoredSchedule): z.infer<typeof scheduleView> {
  const { name, cron_expression, timezone, priority, misfire_policy, overlap_policy } = row
  return {
    schedule_id: encodeId('schedule', row.schedule_id),
    template_id: encodeId('job_template', row.template_id),
    name,
    cron_expression,
    timezone,
    enabled: row.enabled === 1,
    param_overrides: row.param_overrides === null ? null : readObject(row.param_overrides),
    priority,
    misfire_policy,
    overlap_policy,
    last_triggered_at: showTimeOrNull(row.last_triggered_at),
    next_trigger_at: showTimeOrNull(row.next_trigger_at),
    created_at: showTime(row.created_at),
  }
}

export const firingView = z
  .object({
    due_at: timeView(),
    outcome: z.enum(['fired', 'overlapped', 'missed']),
    job_id: z.string().nullable(),
    missed_since: timeView().nullable(),
    decided_at: timeView(),
  })
  .meta({ id: 'SchedulerFiring' })
export function toFiringView(row: StoredFiring): z.infer<typeof firingView> {
  return {
    due_at: showTime(row.due_at),
    outcome: row.outcome,
    job_id: showIdOrNull('job', row.job_id),
    missed_since: showTimeOrNull(row.missed_since),
    decided_at: showTime(row.decided_at),
  }
}

export const reservationView = z
  .object({
    reservation_id: z.string(),
    reserved_by: z.string(),
    status: z.enum(['ACTIVE', 'RELEASED', 'EXPIRED']),
    reserved_at: timeView(),
    expires_at: timeView(),
    ended_at: timeView().nullable(),
  })
  .meta({ id: 'SchedulerReservation' })
export function toReservationView(row: StoredReservation): z.infer<typeof reservationView> {
  return {
    reservation_id: encodeId('reservation', row.reservation_id),
    reserved_by: row.reserved_by,
    status: row.status,
    reserved_at: showTime(row.reserved_at),
    expires_at: showTime(row.expires_at),
    ended_at: showTimeOrNull(row.ended_at),
  }
}

export const jobNotificationView = z
  .object({
    notification_id: z.string().meta({ description: 'Identical for every delivery of the same fact.' }),
    kind: z.enum(notificationKinds),
    payload: objectView,
    created_at: timeView(),
  })
  .meta({ id: 'SchedulerNotification' })
export function toJobNotificationView(row: StoredJobNotification): z.infer<typeof jobNotificationView> {
  return {
    notification_id: row.notification_id,
    kind: row.kind,
    payload: readObject(row.payload),
    created_at: showTime(row.created_at),
  }
}

export const jobTypeView = z
  .object({
    job_type: z.string(),
    retry_policy: objectView,
    concurrency_limit: z.int().nullable(),
    has_command: z
      .boolean()
      .meta({ description: 'Whether the type runs a command, its own or one named by each job.' }),
  })
  .meta({ id: 'SchedulerJobType', description: 'A registered kind of work.' })
/** Omits the runner's settings, which name folders and variables of the machine. */
export function toJobTypeView(row: StoredJobType): z.infer<typeof jobTypeView> {
  const { job_type, concurrency_limit } = row
  return {
    job_type,
    retry_policy: readObject(row.retry_policy),
    concurrency_limit,
    has_command: row.runner !== null,
  }
}

export const selfCheckView = z
  .object({
    checked: z.array(z.string()).meta({ example: ['S01', 'S02'] }),
    not_checked: z.array(z.string()).meta({ description: 'The checks that need the log written by the jobs.' }),
    violations: z.array(
      z.object({ invariant: z.string(), says: z.string(), about: z.array(z.string()), count: z.int() }),
    ),
  })
  .meta({ id: 'SchedulerSelfCheck', description: 'The invariants that were checked, and their violations.' })
export function toSelfCheckView({ checked, notChecked, violations }: SelfCheck): z.infer<typeof selfCheckView> {
  return {
    checked: [...checked],
    not_checked: [...notChecked],
    violations: violations.map((each) => ({ ...each, about: [...each.about] })),
  }
}
