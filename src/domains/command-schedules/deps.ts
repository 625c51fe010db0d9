/** The dependencies of this room: commands, a runtime that keeps due times, and new trace ids. */
import type { CommandDeps } from '#domains/commands'
import type { Runtime } from '#runtime'

type ScheduleRuntime = Pick<Runtime, 'schedule' | 'unschedule' | 'describeSchedule'>

export type CommandScheduleDeps = {
  readonly commands: CommandDeps
  readonly runtime: ScheduleRuntime
  /** The id or short name of the workspace for schedules of the catalog that name none. */
  readonly defaultWorkspace: string
  /** The limit of schedules of people in one workspace; those of the catalog do not count. */
  readonly schedulesMax: number
  readonly newIds: () => { readonly traceId: string; readonly requestId: string }
}

/** Each firing is a process of this kind. */
export const FIRING_KIND = 'schedule_firing'
export const FIRING_QUEUE = 'scheduled_maintenance'
