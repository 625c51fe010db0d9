/** The closed list of the events of this room, appended in the transaction of the change; never with the payload of a schedule. */
import { domainEventLog } from '#store'

const scheduleEventTypes = {
  /** A schedule was created. */
  schedule_created: 'audit',
  /** Its times, payload or state changed. */
  schedule_changed: 'audit',
  /** It was removed. */
  schedule_removed: 'audit',
  /** A due time could not become a command. */
  schedule_firing_refused: 'audit',
  /** An operator resumed it, or one firing of it. */
  schedule_resumed: 'audit',
} as const

export const scheduleLog = domainEventLog(scheduleEventTypes)
