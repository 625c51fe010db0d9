/** Writes one vote with its event, and what follows from it, in the transaction of the decision. */
import type { By } from '#domains/identity'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision } from '#kernel/refusal'
import type { Tx } from '#store'
import { findDatabaseTime, type Locked, saveVote } from './approval-repository.ts'
import type { Decider } from './approver.ts'
import { type NextStep, refuseClosed, type Vote } from './decide-vote.ts'
import { appendApprovalEvent } from './events.ts'
import { settleApproval } from './settle-approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalWorld } from './world.ts'

export type Decided = {
  readonly approval: StoredApproval
  /** What the owner was told to do; `wait` while more persons or approvals are needed. */
  readonly next: NextStep
}

export type Ballot = {
  readonly approval: StoredApproval
  readonly vote: Vote
  readonly locked: Locked
  readonly decider: Decider
  readonly by: By
}

/** `more` goes into the event beside the usual. */
export async function castBallot(
  tx: Tx,
  world: ApprovalWorld,
  { approval, vote, locked, by }: Omit<Ballot, 'decider'>,
  more: Readonly<Record<string, unknown>> = {},
): Promise<Decision<Decided>> {
  const saved = await saveVote(tx, approval, vote)
  // The row is locked and was judged a moment ago, so only its deadline can have passed in between.
  if (!saved) return refuseClosed(approval, await findDatabaseTime(tx)) ?? unsettled(approval)
  const payload = {
    decision: vote.decision,
    reason: vote.reason,
    approved_by: saved.approved_by,
    approvals_required: saved.approvals_required,
    from: approval.status,
    to: saved.status,
    ...more,
  }
  const isFinal = saved.status !== 'pending'
  const type = isFinal ? 'approval_decided' : 'approval_voted'
  const at = saved.decided_at ?? locked.at
  await appendApprovalEvent(tx, world.newId, { type, approval: saved, by, actorKind: 'approver', at, payload })
  const next = isFinal ? await settleApproval(tx, world, saved, { ...locked, at }, by) : 'wait'
  return accept({ approval: saved, next })
}

function unsettled(approval: StoredApproval): never {
  throw new KernelFault('approvals.vote.unsettled', `approval ${approval.approval_id} is open and takes no vote`)
}
