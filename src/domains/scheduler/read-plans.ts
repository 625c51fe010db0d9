/** Reads everything that is not a job: types, templates, schedules with their firings, reservations, notifications. */
import { PAGE_LIMIT_DEFAULT } from '#kernel/page-limit'
import { accept, type Decision } from '#kernel/refusal'
import { listJobTypes, requireJobType } from './job-types.ts'
import { checkLimit } from './job-views.ts'
import { listJobNotifications } from './notifications.ts'
import { findActiveReservation, listReservations } from './reservations.ts'
import { listFirings, listSchedules, requireSchedule } from './schedule.ts'
import type { Scheduler } from './scheduler.ts'
import type {
  StoredFiring,
  StoredJobType,
  StoredJobNotification,
  StoredReservation,
  StoredSchedule,
  StoredTemplate,
} from './stored-rows.ts'
import { listTemplates, requireTemplate } from './job-template.ts'

export type Plans = {
  readonly jobTypes: readonly StoredJobType[]
  readonly templates: readonly StoredTemplate[]
  readonly schedules: readonly StoredSchedule[]
  /** The ACTIVE reservation. */
  readonly reservation: StoredReservation | null
}

/** Reads all plans from one snapshot. */
export function readPlans(scheduler: Scheduler): Decision<Plans> {
  return scheduler.db.read((reader) => ({
    jobTypes: listJobTypes(reader),
    templates: listTemplates(reader),
    schedules: listSchedules(reader),
    reservation: findActiveReservation(reader) ?? null,
  }))
}

/** Newest first; `before` is the last id of the previous page. */
export function readReservations(
  scheduler: Scheduler,
  page: { readonly limit?: number; readonly before?: string } = {},
): Decision<readonly StoredReservation[]> {
  const limit = checkLimit(page.limit)
  if (!limit.ok) return limit
  return scheduler.db.read((reader) => listReservations(reader, limit.value, page.before))
}

/** Returns whether the params of this work name the command to run, which equals shell access to this machine. */
export function namesOwnCommand(
  scheduler: Scheduler,
  work: { readonly job_type?: string | undefined; readonly template_id?: string | undefined },
): Decision<boolean> {
  return scheduler.db.read((reader) => {
    const template = work.template_id === undefined ? undefined : requireTemplate(reader, work.template_id)
    const named = template?.ok ? template.value.job_type : work.job_type
    // An unknown template or type runs nothing; the service that submits refuses it with the reason.
    const type = named === undefined ? undefined : requireJobType(reader, named)
    const runner = type?.ok ? (type.value.runner ?? '{}') : '{}'
    return (JSON.parse(runner) as { from_params?: unknown }).from_params === true
  })
}

export type ScheduleReport = { readonly schedule: StoredSchedule; readonly firings: readonly StoredFiring[] }

/** Reads a schedule with its newest decided due times. */
export function readSchedule(
  scheduler: Scheduler,
  scheduleId: string,
  limit = PAGE_LIMIT_DEFAULT,
): Decision<ScheduleReport> {
  const read = scheduler.db.read((reader): Decision<ScheduleReport> => {
    const schedule = requireSchedule(reader, scheduleId)
    if (!schedule.ok) return schedule
    return accept({ schedule: schedule.value, firings: listFirings(reader, scheduleId, limit) })
  })
  return read.ok ? read.value : read
}

/** Newest first; `before` is the last `seq` of the previous page. */
export function readNotifications(
  scheduler: Scheduler,
  page: { readonly limit?: number; readonly before?: number } = {},
): Decision<readonly StoredJobNotification[]> {
  return scheduler.db.read((reader) => listJobNotifications(reader, page.limit ?? PAGE_LIMIT_DEFAULT, page.before))
}
