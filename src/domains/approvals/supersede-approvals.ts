/** Replaces the open approvals of a command whose content changed: the old ones are closed, the fresh ones take their place. */
import type { By } from '#domains/identity'
import { accept, type Decision } from '#kernel/refusal'
import type { Tx } from '#store'
import type { ApprovalRequest } from './approval-request.ts'
import { cancelApprovals } from './cancel-approvals.ts'
import { requestApproval } from './request-approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalWorld } from './world.ts'

export type SupersedeApprovals = {
  readonly workspaceId: string
  readonly commandId: string
  readonly why: string
  readonly requests: readonly ApprovalRequest[]
}

/** After a refusal the caller rolls back: the old ones are closed by then. */
export async function supersedeApprovals(
  tx: Tx,
  world: Pick<ApprovalWorld, 'newId' | 'types'>,
  by: By,
  { workspaceId, commandId, why, requests }: SupersedeApprovals,
): Promise<Decision<readonly StoredApproval[]>> {
  await cancelApprovals(tx, world.newId, by, { workspaceId, commandId, why })
  const fresh: StoredApproval[] = []
  for (const request of requests) {
    const asked = await requestApproval(tx, world, by, request)
    if (!asked.ok) return asked
    fresh.push(asked.value.approval)
  }
  return accept(fresh)
}
