/** Looking at everything that is not a job: types, templates, schedules with their firings, reservations, notifications. */
import { PAGE_LIMIT_DEFAULT } from '#kernel/page-limit'
import { accept, type Decision } from '#kernel/refusal'
import { listJobTypes } from './job-types.ts'
import { listNotifications } from './notifications.ts'
import { findActiveReservation } from './reservation-repository.ts'
import { listFirings, listSchedules, requireSchedule } from './schedule-repository.ts'
import type { Scheduler } from './scheduler.ts'
import type {
  StoredFiring,
  StoredJobType,
  StoredNotification,
  StoredReservation,
  StoredSchedule,
  StoredTemplate,
} from './stored-rows.ts'
import { listTemplates } from './template-repository.ts'

export type Plans = {
  readonly jobTypes: readonly StoredJobType[]
  readonly templates: readonly StoredTemplate[]
  readonly schedules: readonly StoredSchedule[]
  /** The ACTIVE one. */
  readonly reservation: StoredReservation | null
}

/** One look at one state. */
export function readPlans(scheduler: Scheduler): Decision<Plans> {
  return scheduler.db.read((reader) => ({
    jobTypes: listJobTypes(reader),
    templates: listTemplates(reader),
    schedules: listSchedules(reader),
    reservation: findActiveReservation(reader) ?? null,
  }))
}

export type ScheduleReport = { readonly schedule: StoredSchedule; readonly firings: readonly StoredFiring[] }

/** With its newest decided due times. */
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

/** Newest first; `before` is the `seq` of the last one seen. */
export function readNotifications(
  scheduler: Scheduler,
  page: { readonly limit?: number; readonly before?: number } = {},
): Decision<readonly StoredNotification[]> {
  return scheduler.db.read((reader) => listNotifications(reader, page.limit ?? PAGE_LIMIT_DEFAULT, page.before))
}
