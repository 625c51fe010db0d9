/** The closed list of what this room records, in the transaction of the fact itself; never the payload of a schedule. */
import { domainEventLog } from '#store'

const scheduleEventTypes = {
  schedule_created: 'audit',
  schedule_changed: 'audit',
  schedule_removed: 'audit',
  schedule_firing_refused: 'audit',
  /** An operator gave it, or one firing of it, another chance. */
  schedule_resumed: 'audit',
} as const

export const scheduleLog = domainEventLog(scheduleEventTypes)
