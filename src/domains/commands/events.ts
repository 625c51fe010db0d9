/** The events of this room, each with its purpose. The audit is all events with `purpose = 'audit'`. */
import { type Actor, eventBy } from '#kernel/actor'
import type { Clock, NewId } from '#kernel/clock'
import { appendEvents, domainEventLog, type Sql } from '#store'

const commandEventTypes = {
  command_created: 'audit',
  command_rejected: 'audit',
  contract_key_changed: 'audit',
  status_changed: 'event',
  status_change_refused: 'audit',
  policy_evaluated: 'audit',
  plan_created: 'event',
  input_requested: 'event',
  input_supplied: 'audit',
  retry_requested: 'audit',
  retry_scheduled: 'event',
  wait_started: 'event',
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
  signal_received: 'audit',
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

/** Appends an event about a command outside the statement that writes commands. */
export async function appendCommandEvent(
  sql: Sql,
  { newId, now }: { readonly newId: NewId; readonly now: Clock },
  by: Actor<string>,
  type: CommandEventType,
  { workspace_id, command_id }: { readonly workspace_id: string; readonly command_id: string },
  payload: Readonly<Record<string, unknown>>,
): Promise<void> {
  const about = { ...payload, target_type: 'command', target_id: command_id }
  const event = { eventId: newId(), type, payload: about, ...eventBy(by), at: now() }
  await appendEvents(sql, commandLog, [{ ...event, links: { workspace_id, command_id } }])
}
