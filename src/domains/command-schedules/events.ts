/** The closed list of the events of this room, appended in the transaction of the change; never with the payload of a schedule. */
import { domainEventLog } from '#store'

const scheduleEventTypes = {
  schedule_created: 'audit',
  schedule_changed: 'audit',
  schedule_removed: 'audit',
  schedule_firing_refused: 'audit',
  /** An operator resumed it, or one firing of it. */
  schedule_resumed: 'audit',
} as const

export const scheduleLog = domainEventLog(scheduleEventTypes)
