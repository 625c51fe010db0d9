/** Works out who is asked: by the type's rule, in one spelling, with enough persons to make the quorum possible. Pure. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ApprovalRequest } from './approval-request.ts'
import type { ApprovalType } from './approval-type.ts'
import { approverRef, type Asked, isPersonRef, roleSlug } from './approver.ts'

export type ResolvedApprovers = {
  readonly requestedBy: string
  readonly approver: string
  /** Named persons beside the approver. */
  readonly approvers: readonly string[]
  readonly roles: readonly string[]
  readonly approvalsRequired: number
  readonly selfDecisionAllowed: boolean
}

export function resolveApprovers(type: ApprovalType, request: ApprovalRequest): Decision<ResolvedApprovers> {
  const requestedBy = personOrSelf(request.requestedBy)
  const asked = askedBy(type, request, requestedBy)
  const approver = approverRef(asked.approver)
  const approvers = (asked.approvers ?? []).map(approverRef)
  const roles = (asked.roles ?? []).map(roleSlug)
  if (
    approver === undefined ||
    !approvers.every((ref) => ref !== undefined && isPersonRef(ref)) ||
    roles.includes(undefined)
  ) {
    return refuse('approvals.approver.unresolved', `nobody is named who could decide about ${type.name}`, {
      path: 'approver',
      hint: 'Name a person as user:<uuid>, or an org role.',
    })
  }
  const resolved: ResolvedApprovers = {
    requestedBy,
    approver,
    approvers: [...new Set(approvers.filter((ref) => ref !== undefined))],
    roles: [...new Set(roles.filter((slug) => slug !== undefined))],
    approvalsRequired: Math.max(type.quorum, request.approvalsRequired ?? 1),
    selfDecisionAllowed: type.selfDecision && request.selfDecisionAllowed !== false,
  }
  return isReachable(resolved) ? accept(resolved) : unreachable(resolved)
}

function askedBy(type: ApprovalType, request: ApprovalRequest, requestedBy: string): Asked {
  const more = { approvers: request.approvers ?? [], roles: request.approverRoles ?? [] }
  if (type.approver === 'given') return { approver: request.approver ?? '', ...more }
  if (type.approver === 'requester') return { approver: requestedBy, ...more }
  if (typeof type.approver === 'function') return type.approver(request)
  return { approver: type.approver.role, ...more }
}

/** A bare UUID is a person's; everything else (`system`, `service:…`) stays as it is and can never decide. */
function personOrSelf(requestedBy: string): string {
  const ref = approverRef(requestedBy)
  return ref !== undefined && isPersonRef(ref) ? ref : requestedBy
}

/** How many members a role has is not known here; of named persons alone there must be enough who may decide. */
function isReachable({
  approver,
  approvers,
  roles,
  requestedBy,
  approvalsRequired,
  selfDecisionAllowed,
}: ResolvedApprovers): boolean {
  if (roles.length > 0 || !isPersonRef(approver)) return true
  const persons = new Set([approver, ...approvers])
  if (!selfDecisionAllowed) persons.delete(requestedBy)
  return persons.size >= approvalsRequired
}

function unreachable({ approvalsRequired }: ResolvedApprovers) {
  return refuse('approvals.quorum.unreachable', `fewer than ${approvalsRequired} of the persons named may decide`, {
    path: 'approvers',
    hint: 'The requester does not count unless the type allows it; name more persons, or a role.',
    facts: { required: approvalsRequired },
  })
}
