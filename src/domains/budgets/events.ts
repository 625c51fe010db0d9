/** The closed list of the events of this room, appended in the transaction of the change. */
import { domainEventLog } from '#store'

const budgetEventTypes = {
  /** A call cost more than it had reserved. */
  budget_breached: 'audit',
  /** A model cost more than its worst case, and may not be called. */
  model_quarantined: 'audit',
  /** An administrator allowed calls of the model again. */
  model_quarantine_lifted: 'audit',
  /** The limit was raised. */
  budget_raised: 'audit',
} as const

export const budgetLog = domainEventLog(budgetEventTypes)
