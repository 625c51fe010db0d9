/** What the services of this room need from outside: the governed path, a runtime that keeps due times, and new ids of traces. */
import type { CommandDeps } from '#domains/commands'
import type { Runtime } from '#runtime'

type ScheduleRuntime = Pick<Runtime, 'schedule' | 'unschedule' | 'describeSchedule'>

export type CommandScheduleDeps = {
  readonly commands: CommandDeps
  readonly runtime: ScheduleRuntime
  /** Id or short name: where schedules of the catalog run that name no workspace. */
  readonly defaultWorkspace: string
  /** How many schedules people may keep in one workspace; those of the catalog do not count. */
  readonly schedulesMax: number
  readonly newIds: () => { readonly traceId: string; readonly requestId: string }
}

/** Each firing is a process of this kind. */
export const FIRING_KIND = 'schedule_firing'
export const FIRING_QUEUE = 'scheduled_maintenance'
