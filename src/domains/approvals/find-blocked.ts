/** Which open approvals nobody can decide today: asked of the rows of persons and roles, never stored. */
import { listActive } from '#domains/identity'
import { accept, type Decision } from '#kernel/refusal'
import type { Sql } from '#store'
import { personIdsOf } from './approver.ts'
import type { ApprovalRequest } from './approval-request.ts'
import { contractOf } from './approval-type.ts'
import { type Asking, type Blocked, decideReach, namedPersons, namedRoles } from './decide-reach.ts'
import { resolveApprovers } from './resolve-approvers.ts'
import type { ApprovalTypes } from './type-registry.ts'
import type { StoredApproval } from './stored-approval.ts'

/** By approval id. One look-up for all of them: they are of one workspace. */
export type BlockedApprovals = ReadonlyMap<string, Blocked>

export async function findBlocked(sql: Sql, approvals: readonly StoredApproval[]): Promise<BlockedApprovals> {
  const open = approvals.filter(({ status }) => status === 'pending')
  const [first] = open
  if (!first) return new Map()
  const persons = await listAsked(sql, first.workspace_id, open)
  return new Map(
    open.flatMap((approval) => {
      const blocked = decideReach(approval, persons)
      return blocked ? [[approval.approval_id, blocked]] : []
    }),
  )
}

/** The same about a question that is not asked yet; null: it could be decided. */
export async function findRequestBlocked(
  sql: Sql,
  types: ApprovalTypes,
  request: ApprovalRequest,
): Promise<Decision<Blocked | null>> {
  const type = types.find(request.approvalType)
  if (!type.ok) return type
  const asked = resolveApprovers(type.value, request)
  if (!asked.ok) return asked
  const { approver, approvers, roles, requestedBy, approvalsRequired, selfDecisionAllowed } = asked.value
  const asking: Asking = {
    approver,
    approver_roles: roles,
    request_payload: { ...request.content, approvers, contract: contractOf(type.value) },
    domain_effect_id: request.domainEffectId ?? null,
    requested_by: requestedBy,
    approved_by: [],
    approvals_required: approvalsRequired,
    self_decision_allowed: selfDecisionAllowed,
  }
  return accept(decideReach(asking, await listAsked(sql, request.workspaceId, [asking])) ?? null)
}

function listAsked(sql: Sql, workspaceId: string, asked: readonly Asking[]) {
  return listActive(sql, {
    workspaceId,
    userIds: personIdsOf(asked.flatMap(namedPersons)),
    orgRoles: asked.flatMap(namedRoles),
  })
}
