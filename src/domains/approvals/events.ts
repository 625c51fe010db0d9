/** The closed list of what this room records, and the one way it does: audit rows in the transaction of the fact itself. */
import { appendEvents, domainEventLog, eventIdOf, type EventDraft, type Tx } from '#store'
import type { NewId } from '#kernel/clock'
import type { By } from '#domains/identity'
import type { StoredApproval } from './stored-approval.ts'

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
type ApprovalEventType = keyof typeof approvalEventTypes

export const approvalLog = domainEventLog(approvalEventTypes)

type Payload = Readonly<Record<string, unknown>>

/** What every event of an approval says about it. Never its arguments: those stand on the row, behind its wall. */
export function payloadOf(approval: StoredApproval, more: Payload = {}): Payload {
  return {
    target_type: 'approval',
    target_id: approval.approval_id,
    approval_id: approval.approval_id,
    approval_type: approval.approval_type,
    payload_hash: approval.payload_hash,
    ...more,
  }
}

export type ApprovalFact = {
  readonly type: ApprovalEventType
  readonly approval: StoredApproval
  readonly by: By
  readonly actorKind: string
  readonly at: Date
  readonly payload?: Payload
}

function draft(
  eventId: string,
  { type, approval, by, actorKind, at, payload }: ApprovalFact,
): EventDraft<ApprovalEventType> {
  return {
    eventId,
    type,
    payload: payloadOf(approval, payload),
    actor: by.actor,
    actorKind,
    traceId: by.traceId,
    at,
    links: { workspace_id: approval.workspace_id, command_id: approval.command_id },
  }
}

export async function appendApprovalEvent(tx: Tx, newId: NewId, fact: ApprovalFact): Promise<void> {
  await appendEvents(tx, approvalLog, [draft(newId(), fact)])
}

/** True when the fact is new: `round` makes the same fact about the same approval the same event, however often it is told. */
export async function appendApprovalEventOnce(tx: Tx, fact: ApprovalFact, round: string): Promise<boolean> {
  const eventId = eventIdOf(fact.type, fact.approval.approval_id, round)
  return (await appendEvents(tx, approvalLog, [draft(eventId, fact)], { once: true })) === 1
}
