/** The closed list of the events of this room, with the purpose of each. */
import { domainEventLog } from '#store'

const approvalEventTypes = {
  /** People were asked. */
  approval_requested: 'audit',
  /** One channel told the approvers. */
  approval_notified: 'audit',
  /** One attempt of one channel failed; the approval is in the inbox anyway. */
  approval_notice_failed: 'event',
  /** The approvers were reminded. */
  approval_reminded: 'audit',
  /** The next role was asked. */
  approval_escalated: 'audit',
  /** Nobody, or too few people, can decide now; the administrators of the workspace are notified. */
  approval_blocked: 'audit',
  /** One of several persons approved, and more are needed. */
  approval_voted: 'audit',
  /** It was approved or rejected, or changes were requested. */
  approval_decided: 'audit',
  /** Its deadline passed without a decision. */
  approval_expired: 'audit',
  /** The question became pointless. */
  approval_cancelled: 'audit',
  /** An operator restarted the turns that notify, remind and expire it. */
  approval_resumed: 'audit',
} as const

export const approvalLog = domainEventLog(approvalEventTypes)
