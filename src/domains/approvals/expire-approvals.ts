/** The expiry sweep: no answer in time is a refusal. Driven by each approval's own turns and by a schedule; any number of sweepers at once do it once. */
import { bySystem } from '#domains/identity'
import { findApproval, saveExpired } from './approval-repository.ts'
import { lockSubject, settleApproval } from './settle-approval.ts'
import { listOverdue, type OverdueRow } from './sql/list-overdue.ts'
import type { ApprovalDeps, Sweep } from './deps.ts'

export type Swept = {
  readonly expired: number
  /** Left as they were, because their command could not be moved along; the next sweep tries again. */
  readonly failed: readonly { readonly approvalId: string; readonly error: unknown }[]
  /** The batch was full: there may be more. */
  readonly more: boolean
}

export async function expireApprovals(
  deps: ApprovalDeps,
  { limit = 100, traceId, approvalId = null }: Sweep,
): Promise<Swept> {
  const overdue = await deps.db.run(listOverdue, [limit, approvalId])
  const failed: { approvalId: string; error: unknown }[] = []
  let expired = 0
  for (const row of overdue) {
    // A transaction each: one command that cannot be moved does not keep the others waiting.
    try {
      if (await expireOne(deps, row, traceId)) expired += 1
    } catch (error) {
      failed.push({ approvalId: row.approval_id, error })
    }
  }
  return { expired, failed, more: overdue.length === limit }
}

function expireOne(deps: ApprovalDeps, { approval_id, workspace_id }: OverdueRow, traceId: string): Promise<boolean> {
  const by = bySystem(traceId)
  return deps.db.transaction(async (tx) => {
    const known = await findApproval(tx, workspace_id, approval_id)
    if (known?.status !== 'pending') return false
    const locked = await lockSubject(tx, deps, known)
    const approval = locked.approvals.find((each) => each.approval_id === approval_id)
    if (approval?.status !== 'pending') return false
    const moved = await saveExpired(tx, approval, { by, at: locked.at, newId: deps.newId, why: 'no_answer_in_time' })
    if (!moved.ok) return false
    await settleApproval(tx, deps, moved.row, locked, by)
    return true
  })
}
