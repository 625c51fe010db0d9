/** The door of the schedules room: commands that are asked for by the clock. */
export {
  type ChangeSchedule,
  changeSchedule,
  removeSchedule,
  type ScheduleRef,
} from './change-schedule.ts'
export {
  changeScheduleBody,
  createScheduleBody,
  OCCURRENCES_DEFAULT,
  scheduleDetailView,
  type ScheduleView,
  scheduleView,
  toScheduleDetailView,
  toScheduleView,
} from './contract.ts'
export { type CreatedSchedule, type CreateSchedule, createSchedule } from './create-schedule.ts'
export { nextOccurrences } from './decide-schedule.ts'
export { openFiringDrive } from './drive-firing.ts'
export { type ScheduleEventType, scheduleEventTypes } from './events.ts'
export { getSchedule, listSchedules, type ScheduleDetail, type SchedulePage } from './read-schedules.ts'
export { recordResumedSchedule } from './record-resumed.ts'
export type { StoredSchedule } from './stored-schedule.ts'
export { type Synced, syncSchedules } from './sync-schedules.ts'
export { FIRING_KIND, FIRING_QUEUE, type ScheduleRuntime, type ScheduleDeps } from './deps.ts'
