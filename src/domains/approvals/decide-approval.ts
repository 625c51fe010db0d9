/** A person decides: once, in time, about exactly what was shown; the command's own move commits with it. */
import { byPrincipal } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import { type Decision, refuse } from '#kernel/refusal'
import { failpoint, type Tx } from '#store'
import { approveWithEdits } from './approve-with-edits.ts'
import { findApproval } from './approval-repository.ts'
import type { Decider } from './approver.ts'
import { castBallot, type Decided } from './cast-ballot.ts'
import { decideVote, refuseChanged } from './decide-vote.ts'
import { lockSubject } from './settle-approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalDeps } from './deps.ts'

export type DecideApproval = {
  readonly workspaceId: string
  readonly approvalId: string
  readonly decision: string
  readonly reason?: string | undefined
  readonly payloadHash?: string | undefined
  /** Arguments to replace, by name, with an approval. */
  readonly edits?: JsonObject | undefined
  readonly traceId: string
}

export async function decideApproval(
  deps: ApprovalDeps,
  decider: Decider,
  input: DecideApproval,
): Promise<Decision<Decided>> {
  const known = await findApproval(deps.db, input.workspaceId, input.approvalId)
  if (!known) return refuse('row.not_found', 'there is no such approval')
  const look = (tx: Tx) => lockSubject(tx, deps, known)
  const decided = await deps.db.transactionFrom(look, async (tx, locked): Promise<Decision<Decided>> => {
    const approval =
      locked.approvals.find(({ approval_id }) => approval_id === known.approval_id) ?? (await reread(tx, known))
    const vote = decideVote(approval, decider, input, locked.at)
    if (!vote.ok) return vote
    const payloadHash = approval.domain_effect_id === null ? locked.command?.payloadHash : undefined
    if (payloadHash !== undefined && payloadHash !== approval.payload_hash) return refuseChanged(approval)
    const ballot = { approval, vote: vote.value, locked, decider, by: byPrincipal(decider, input.traceId) }
    if (input.edits !== undefined) return approveWithEdits(tx, deps, ballot, input.edits)
    const cast = await castBallot(tx, deps, ballot)
    await failpoint('approvals.decision_written')
    return cast
  })
  await failpoint('approvals.decision_committed')
  return decided
}

/** One that was replaced is not among those that still count. */
async function reread(tx: Tx, known: StoredApproval): Promise<StoredApproval> {
  return (await findApproval(tx, known.workspace_id, known.approval_id)) ?? known
}
