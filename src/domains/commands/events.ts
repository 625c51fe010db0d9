/** The events of this room, each with its purpose. The audit is all events with `purpose = 'audit'`. */
import { type Actor, eventBy } from '#kernel/actor'
import type { Clock, NewId } from '#kernel/clock'
import { appendEvents, domainEventLog, type Sql } from '#store'

const commandEventTypes = {
  /** A request was recorded. */
  command_created: 'audit',
  /** A request was refused; its payload is not recorded. */
  command_rejected: 'audit',
  /** Input, edits or the end of the command changed its contract key. */
  contract_key_changed: 'audit',
  /** A row got another status: `from` and `to`. */
  status_changed: 'event',
  /** A requested change was refused, because the status does not allow it. */
  status_change_refused: 'audit',
  /** Policy decided; the trace has the answer and the reason of every rule. */
  policy_evaluated: 'audit',
  /** The call of an agent needed an approval, and the envelope of its run covers it. */
  envelope_used: 'audit',
  /** The steps of the command were fixed. */
  plan_created: 'event',
  /** A missing field was requested. */
  input_requested: 'event',
  /** A person supplied a missing field. */
  input_supplied: 'audit',
  /** A person asked to run a failed command again. */
  retry_requested: 'audit',
  /** An effect gets another attempt at a later time. */
  retry_scheduled: 'event',
  /** A step began to wait for a time or a signal. */
  wait_started: 'event',
  /** An effect was added to the plan. */
  effect_planned: 'event',
  /** An effect succeeded. */
  effect_executed: 'audit',
  /** An effect failed for good. */
  effect_failed: 'audit',
  /** An effect of the plan did not begin, because the command was cancelled. */
  effect_skipped: 'audit',
  /** An answer was lost, and nothing can tell whether the effect happened. */
  effect_outcome_unknown: 'audit',
  /** It was found out, or a person said, whether an effect in doubt happened. */
  effect_reconciled: 'audit',
  /** A person asked to cancel the command. */
  cancellation_requested: 'audit',
  /** A cancellation was requested and changed nothing. */
  cancellation_ignored: 'audit',
  /** The undo of its effects began. */
  compensation_started: 'audit',
  /** Its effects were undone. */
  compensation_completed: 'audit',
  /** An undo failed, or did something other than it declared. */
  compensation_drift: 'audit',
  /** The command waits for another one. */
  dependency_added: 'event',
  /** All commands that it waited for have succeeded. */
  dependency_satisfied: 'event',
  /** A webhook arrived that started no command. */
  webhook_received: 'audit',
  /** A signal arrived; it ends the waits for it, or is kept. */
  signal_received: 'audit',
  /** The command failed or crashed its worker too often, and waits for an operator. */
  command_quarantined: 'audit',
  /** An operator stopped all turns of the command. */
  command_aborted: 'audit',
  /** An operator let the command go on. */
  command_resumed: 'audit',
  /** A person stopped agents: `scope` and `target`. */
  agents_stopped: 'audit',
  /** A person lifted a stop of agents. */
  stop_lifted: 'audit',
  /** Older events moved into a file. */
  history_archived: 'audit',
  /** An incident is reported to administrators. */
  alert_raised: 'audit',
  /** One channel accepted the report of an incident. */
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
