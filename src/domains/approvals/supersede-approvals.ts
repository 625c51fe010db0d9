/**
 * Replaces all gates of a command by the ones it needs now: the open ones are closed, and what no longer counts gives way, also
 * where its role or type is not asked any more. Only who knows the whole set may do that; one question alone replaces only itself.
 */
import type { By } from '#domains/identity'
import { accept, type Decision } from '#kernel/refusal'
import type { Tx } from '#store'
import type { ApprovalRequest } from './approval-request.ts'
import { cancelApprovals } from './cancel-approvals.ts'
import { requestApproval } from './request-approval.ts'
import { replaceApprovals } from './sql/replace-approvals.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalDeps } from './deps.ts'

export type SupersedeApprovals = {
  readonly workspaceId: string
  readonly commandId: string
  readonly why: string
  /** The whole set, about one content. */
  readonly requests: readonly ApprovalRequest[]
}

/** After a refusal the caller rolls back: the old ones are closed by then. */
export async function supersedeApprovals(
  tx: Tx,
  deps: Pick<ApprovalDeps, 'newId' | 'types' | 'notify'>,
  by: By,
  { workspaceId, commandId, why, requests }: SupersedeApprovals,
): Promise<Decision<readonly StoredApproval[]>> {
  await cancelApprovals(tx, deps.newId, by, { workspaceId, commandId, why })
  const fresh: StoredApproval[] = []
  for (const request of requests) {
    const asked = await requestApproval(tx, deps, by, request)
    if (!asked.ok) return asked
    fresh.push(asked.value.approval)
  }
  const [first] = fresh
  if (first) {
    const ids = fresh.map(({ approval_id }) => approval_id)
    await tx.run(replaceApprovals, [workspaceId, commandId, ids, first.approval_id, first.payload_hash])
  }
  return accept(fresh)
}
