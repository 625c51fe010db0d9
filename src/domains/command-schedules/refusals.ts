/** The refusals of schedules of commands: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const scheduleRefusals = {
  'schedules.schedule.not_found': ['not_found', 'GET /schedules lists them.'],
  'schedules.schedule.name_taken': ['conflict', 'Choose another name, or change that one.'],
  'schedules.schedule.of_catalog': ['conflict', 'Change it in the catalog of the project, or create your own.'],
  'schedules.schedule.not_yours': ['forbidden', 'Ask its creator or an administrator, or create your own schedule.'],
  'schedules.command_type.unknown': ['invalid', 'GET /task-types lists the tasks with their command types.'],
  'schedules.command_type.not_scheduled': ['invalid', 'Its task must name scheduled_trigger among its ingress_types.'],
  'schedules.payload.invalid': ['invalid', 'Provide the whole input: a firing cannot ask for it.'],
  'schedules.queue.unknown': ['invalid', 'Name a queue that the project declares.'],
  'schedules.schedule.too_many': ['conflict', 'Remove an unused one; GET /schedules lists them.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    schedules: typeof scheduleRefusals
  }
}
