/** Reads approvals: one by its id, the open ones of a command, and whether a command may run as it is now. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Db, scoped, type Sql } from '#store'
import { approvalLookup } from './approval-repository.ts'
import { showActor } from './approver.ts'
import { listStanding } from './sql/list-standing.ts'
import type { StoredApproval } from './stored-approval.ts'

/** By id and workspace, behind both walls; one of another workspace does not exist here. */
export function getApproval(db: Db, workspaceId: string, approvalId: string): Promise<Decision<StoredApproval>> {
  const scope = scoped(db, workspaceId)
  return scope.read((tx) => scope.get(approvalLookup, approvalId, tx))
}

export type CommandRef = { readonly workspaceId: string; readonly commandId: string }

/** The open approvals of a command, questions about its effects among them. */
export async function findPending(
  sql: Sql,
  { workspaceId, commandId }: CommandRef,
): Promise<readonly StoredApproval[]> {
  const rows = await sql.run(listStanding, [workspaceId, commandId])
  return rows.filter(({ status }) => status === 'pending')
}

/**
 * Asked right before a command runs that needs approval, with the hash of what would run: there is a gate, and every one
 * that stands says approved, for this content. The rows alone answer; nothing in a payload can.
 */
export async function checkApproved(
  sql: Sql,
  { workspaceId, commandId, payloadHash }: CommandRef & { readonly payloadHash: string },
): Promise<Decision<readonly StoredApproval[]>> {
  const rows = await sql.run(listStanding, [workspaceId, commandId])
  const gates = rows.filter(({ domain_effect_id }) => domain_effect_id === null)
  const open = gates.find(({ status }) => status !== 'approved')
  if (open || gates.length === 0) {
    return refuse('approvals.approval.missing', `this command is not approved: ${open?.status ?? 'nobody was asked'}`, {
      facts: open ? { status: open.status, approver: showActor(open.approver) } : {},
    })
  }
  const stale = gates.find((gate) => gate.payload_hash !== payloadHash)
  if (stale) {
    return refuse('payload_changed', 'what was approved is not what would run', {
      facts: { payload_hash: stale.payload_hash },
    })
  }
  return accept(gates)
}
