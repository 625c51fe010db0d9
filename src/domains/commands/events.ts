/** Every event this room writes, with its purpose: one fact is written once, and the audit is complete with `purpose = 'audit'`. */
import { domainEventLog } from '#store'

const commandEventTypes = {
  command_created: 'audit',
  command_rejected: 'audit',
  status_changed: 'event',
  status_change_refused: 'audit',
  policy_evaluated: 'audit',
  plan_created: 'event',
  input_requested: 'event',
  input_supplied: 'audit',
  retry_requested: 'audit',
  retry_scheduled: 'event',
  effect_planned: 'event',
  effect_executed: 'audit',
  effect_failed: 'audit',
  effect_skipped: 'audit',
  effect_outcome_unknown: 'audit',
  effect_reconciled: 'audit',
  cancellation_requested: 'audit',
  cancellation_ignored: 'audit',
  compensation_started: 'audit',
  compensation_completed: 'audit',
  compensation_drift: 'audit',
  dependency_added: 'event',
  dependency_satisfied: 'event',
  webhook_received: 'audit',
  command_quarantined: 'audit',
  command_aborted: 'audit',
  command_resumed: 'audit',
  history_archived: 'audit',
  alert_raised: 'audit',
  alert_delivered: 'audit',
} as const

export const commandLog = domainEventLog(commandEventTypes)
export type CommandEventType = keyof typeof commandEventTypes
export const commandEventPurposes: Readonly<Record<CommandEventType, 'event' | 'audit'>> = commandEventTypes
