/** Asks: one durable row per question, bound to its content, inside the transaction of the room that asks. */
import type { By } from '#domains/identity'
import { KernelFault } from '#kernel/errors'
import { encodeId } from '#kernel/ids'
import { higherRisk } from '#kernel/policy/risk'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { approvalHash } from './approval-hash.ts'
import { findDatabaseTime } from './approval-repository.ts'
import type { ApprovalRequest } from './approval-request.ts'
import { type ApprovalType, contractOf, MINUTES_MAX } from './approval-type.ts'
import { appendApprovalEvent } from './events.ts'
import { type ResolvedApprovers, resolveApprovers } from './resolve-approvers.ts'
import { buildPacket } from './review-packet.ts'
import { type AskedRow, insertApproval } from './sql/insert-approval.ts'
import type { RequestPayload, StoredApproval } from './stored-approval.ts'
import type { ApprovalDeps } from './deps.ts'

export type Requested = { readonly inserted: boolean; readonly approval: StoredApproval }

/** The winner commits within one statement of ours, so the second look finds it; more than a few mean a broken key. */
const LOOKS_MAX = 10

export async function requestApproval(
  tx: Tx,
  deps: Pick<ApprovalDeps, 'newId' | 'types' | 'notify'>,
  by: By,
  request: ApprovalRequest,
): Promise<Decision<Requested>> {
  const found = deps.types.find(request.approvalType)
  if (!found.ok) return found
  const type = found.value
  const missing = missingFields(type, request)
  if (missing.length > 0) {
    return refuse('approvals.field.missing', `an approval of the type ${type.name} needs ${missing.join(', ')}`, {
      path: missing[0] ?? '',
      facts: { missing },
    })
  }
  const asked = resolveApprovers(type, request)
  if (!asked.ok) return asked
  const at = await findDatabaseTime(tx)
  const expiresAt = expiryOf(type, request, at)
  const packet = buildPacket({
    ...request,
    requester: asked.value.requestedBy,
    riskLevel: higherRisk(type.riskLevel, request.riskLevel),
    expiresAt,
  })
  if (!packet.ok) return packet
  const payload: RequestPayload = {
    ...request.content,
    approvers: asked.value.approvers,
    contract: contractOf(type),
    ...(request.readBack === undefined ? {} : { read_back: request.readBack }),
    ...(request.edits === undefined ? {} : { edits: request.edits }),
  }
  const values = [
    deps.newId(),
    request.workspaceId,
    request.commandId,
    asked.value.requestedBy,
    asked.value.approver,
    type.name,
    JSON.stringify(payload),
    JSON.stringify(packet.value),
    expiresAt,
    keyOf(type, request, asked.value),
    approvalHash(request.content),
    asked.value.selfDecisionAllowed,
    asked.value.approvalsRequired,
    asked.value.roles,
    request.domainEffectId ?? null,
  ]
  for (let look = 1; look <= LOOKS_MAX; look++) {
    const [row] = await tx.run(insertApproval, values)
    if (row) return settle(tx, deps, by, at, row)
  }
  throw new KernelFault('approvals.request.unsettled', 'an approval is refused whose key nobody has')
}

async function settle(
  tx: Tx,
  deps: Pick<ApprovalDeps, 'newId' | 'notify'>,
  by: By,
  at: Date,
  { once_inserted, once_same, supersedes, ...approval }: AskedRow,
): Promise<Decision<Requested>> {
  if (!once_same) {
    return refuse('key_reused', 'this was asked before, about another content', {
      hint: 'supersede the approval that is open before asking about a changed command',
      facts: { first: encodeId('approval', approval.approval_id) },
    })
  }
  if (once_inserted) {
    const payload = {
      requested_by: approval.requested_by,
      approver: approval.approver,
      approvals_required: approval.approvals_required,
      expires_at: approval.expires_at?.toISOString() ?? null,
      supersedes,
    }
    await appendApprovalEvent(tx, deps.newId, {
      type: 'approval_requested',
      approval,
      by,
      actorKind: 'system',
      at,
      payload,
    })
    await deps.notify?.(tx, { approval, why: 'requested' })
  }
  return accept({ inserted: once_inserted, approval })
}

function missingFields(type: ApprovalType, { content, domainEffectId }: ApprovalRequest): string[] {
  const fields = type.requiredFields.filter(
    (name) => (content.arguments[name] ?? null) === null || content.arguments[name] === '',
  )
  return type.about === 'effect' && domainEffectId === undefined ? [...fields, 'domain_effect_id'] : fields
}

/** By the database's clock; a request may shorten the type's time, never lengthen it. */
function expiryOf(type: ApprovalType, { expiresInMinutes }: ApprovalRequest, at: Date): Date | null {
  const minutes = Math.min(
    type.expirationMinutes ?? Number.POSITIVE_INFINITY,
    expiresInMinutes ?? Number.POSITIVE_INFINITY,
  )
  if (minutes === Number.POSITIVE_INFINITY) return null
  return new Date(at.getTime() + Math.min(Math.max(minutes, 1), MINUTES_MAX) * 60_000)
}

/** One question per command, type and approver, and per effect where it is about one; later rounds add their number. */
function keyOf(
  type: ApprovalType,
  { commandId, domainEffectId }: ApprovalRequest,
  { approver }: ResolvedApprovers,
): string {
  return ['approval', commandId, type.name, approver, ...(domainEffectId === undefined ? [] : [domainEffectId])].join(
    ':',
  )
}
