/** The closed list of the events of this room, with the purpose of each. */
import { domainEventLog } from '#store'

const approvalEventTypes = {
  approval_requested: 'audit',
  approval_notified: 'audit',
  /** One attempt of one channel; the approval is in the inbox anyway. */
  approval_notice_failed: 'event',
  approval_reminded: 'audit',
  approval_escalated: 'audit',
  /** Nobody, or too few people, can decide now; the administrators of the workspace are notified. */
  approval_blocked: 'audit',
  /** One of several persons approved, and more are needed. */
  approval_voted: 'audit',
  approval_decided: 'audit',
  approval_expired: 'audit',
  approval_cancelled: 'audit',
  /** An operator restarted the turns that notify, remind and expire it. */
  approval_resumed: 'audit',
} as const

export const approvalLog = domainEventLog(approvalEventTypes)
