/** Writes one vote with its event, and what follows from it, in the transaction of the decision. */
import type { By } from '#domains/identity'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision } from '#kernel/refusal'
import { together, type Tx } from '#store'
import { findDatabaseTime, saveVote } from './approval-repository.ts'
import type { Decider } from './approver.ts'
import { applyVote, type NextStep, refuseClosed, type Vote } from './decide-vote.ts'
import { appendApprovalEvent } from './events.ts'
import { type LockedSubject, settleApproval } from './settle-approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalDeps } from './deps.ts'

export type Decided = {
  readonly approval: StoredApproval
  /** What the owner was told to do; `wait` while more persons or approvals are needed. */
  readonly next: NextStep
}

export type Ballot = {
  readonly approval: StoredApproval
  readonly vote: Vote
  readonly locked: LockedSubject
  readonly decider: Decider
  readonly by: By
}

/** `more` goes into the event beside the usual. */
export async function castBallot(
  tx: Tx,
  deps: ApprovalDeps,
  { approval, vote, locked, by }: Omit<Ballot, 'decider'>,
  more: Readonly<Record<string, unknown>> = {},
): Promise<Decision<Decided>> {
  const voted = applyVote(approval, vote, locked.at)
  const isFinal = voted.status !== 'pending'
  const payload = {
    decision: vote.decision,
    reason: vote.reason,
    approved_by: voted.approved_by,
    approvals_required: voted.approvals_required,
    from: approval.status,
    to: voted.status,
    ...more,
  }
  const type = isFinal ? 'approval_decided' : 'approval_voted'
  // One round trip: the rows are locked, so what the vote makes of them is known before it is written.
  const [saved, , next] = await together([
    saveVote(tx, approval, vote),
    appendApprovalEvent(tx, deps.newId, { type, approval, by, actorKind: 'approver', at: locked.at, payload }),
    isFinal ? settleApproval(tx, deps, voted, locked, by) : ('wait' as const),
  ])
  // Judged a moment ago under the lock, so only its deadline can have passed in between; what went along goes with it.
  if (!saved) return refuseClosed(approval, await findDatabaseTime(tx)) ?? unsettled(approval)
  return accept({ approval: saved, next })
}

function unsettled(approval: StoredApproval): never {
  throw new KernelFault('approvals.vote.unsettled', `approval ${approval.approval_id} is open and takes no vote`)
}
