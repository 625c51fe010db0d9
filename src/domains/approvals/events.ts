/** The closed list of what this room records: audit rows in the transaction of the fact itself. */
import { domainEventLog } from '#store'

const approvalEventTypes = {
  approval_requested: 'audit',
  approval_notified: 'audit',
  /** One attempt of one channel; the inbox has the approval all the same. */
  approval_notice_failed: 'event',
  approval_reminded: 'audit',
  approval_escalated: 'audit',
  /** Nobody, or too few, can decide as things are; the administrators of the workspace are told. */
  approval_blocked: 'audit',
  /** One of several persons agreed, and more are needed. */
  approval_voted: 'audit',
  approval_decided: 'audit',
  approval_expired: 'audit',
  approval_cancelled: 'audit',
  /** An operator gave the turns that notify, remind and expire it another chance. */
  approval_resumed: 'audit',
} as const

export const approvalLog = domainEventLog(approvalEventTypes)
