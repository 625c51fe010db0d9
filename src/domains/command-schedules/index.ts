/** The exports of the command-schedules room: commands that a schedule submits. */
export {
  changeCommandSchedule,
  createCommandSchedule,
  getCommandSchedule,
  listCommandSchedules,
  removeCommandSchedule,
  type StoredCommandSchedule,
} from './command-schedule.ts'
export {
  changeCommandScheduleBody,
  commandScheduleDetailView,
  commandScheduleView,
  createCommandScheduleBody,
  OCCURRENCES_DEFAULT,
  toCommandScheduleDetailView,
  toCommandScheduleView,
} from './contract.ts'
export { type CommandScheduleDeps, FIRING_KIND, FIRING_QUEUE } from './deps.ts'
export { openFiringDrive, recordResumedSchedule } from './drive-firing.ts'
export { syncCommandSchedules } from './sync-catalog.ts'
