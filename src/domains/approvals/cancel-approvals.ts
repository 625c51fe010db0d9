/** Closes the open approvals of a command whose question no longer stands, in the transaction of the room that knows why. */
import type { By } from '#domains/identity'
import type { NewId } from '#kernel/clock'
import type { Tx } from '#store'
import { lockQuestions, saveCancelled } from './approval-repository.ts'
import type { StoredApproval } from './stored-approval.ts'

export type CancelApprovals = {
  readonly workspaceId: string
  readonly commandId: string
  /** In a word: `command_cancelled`, `payload_changed`. */
  readonly why: string
  readonly actorKind?: 'user' | 'operator' | 'system'
  /** Closes the question about this effect instead of the gates: what became of a deed is still open when its command is cancelled. */
  readonly domainEffectId?: string
}

/** Gives the ones it closed; none if all were answered before. */
export async function cancelApprovals(
  tx: Tx,
  newId: NewId,
  by: By,
  input: CancelApprovals,
): Promise<readonly StoredApproval[]> {
  const { workspaceId, commandId, why, actorKind = 'system', domainEffectId = null } = input
  const { at, approvals } = await lockQuestions(tx, {
    workspace_id: workspaceId,
    command_id: commandId,
    domain_effect_id: domainEffectId,
  })
  const closed: StoredApproval[] = []
  for (const approval of approvals.filter(({ status }) => status === 'pending')) {
    const moved = await saveCancelled(tx, approval, { by, at, newId, why, actorKind })
    if (moved.ok) closed.push(moved.row)
  }
  return closed
}
