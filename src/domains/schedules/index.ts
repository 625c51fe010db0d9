/** The door of the schedules room: commands that are asked for by the clock. */
export { changeSchedule, removeSchedule } from './change-schedule.ts'
export {
  changeScheduleBody,
  createScheduleBody,
  OCCURRENCES_DEFAULT,
  scheduleDetailView,
  scheduleView,
  toScheduleDetailView,
  toScheduleView,
} from './contract.ts'
export { createSchedule } from './create-schedule.ts'
export { openFiringDrive } from './drive-firing.ts'
export { getSchedule, listSchedules } from './read-schedules.ts'
export { recordResumedSchedule } from './record-resumed.ts'
export { syncSchedules } from './sync-schedules.ts'
export { FIRING_KIND, FIRING_QUEUE, type ScheduleDeps } from './deps.ts'
export type { StoredSchedule } from './stored-schedule.ts'
