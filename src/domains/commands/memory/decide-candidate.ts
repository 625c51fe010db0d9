/** A person's yes or no to a candidate: the answer to the question in the inbox, found by the candidate. */
import { type Decided, type Decider, decideApproval, type ApprovalDeps, findPending } from '#domains/approvals'
import { findCandidate } from '#domains/memory'
import { type Decision, refuse } from '#kernel/refusal'

export type DecideCandidate = {
  readonly workspaceId: string
  readonly candidateId: string
  readonly decision: 'approved' | 'rejected'
  readonly reason?: string | undefined
  readonly traceId: string
}

export async function decideCandidate(
  approvals: ApprovalDeps,
  decider: Decider,
  { candidateId, ...answer }: DecideCandidate,
): Promise<Decision<Decided>> {
  const { workspaceId } = answer
  const candidate = await findCandidate(approvals.db, workspaceId, candidateId)
  if (!candidate) return refuse('memory.candidate.not_found', 'There is no such candidate.')
  const pending = await findPending(approvals.db, { workspaceId, commandId: candidate.command_id })
  const gate = pending.find(({ domain_effect_id }) => domain_effect_id === null)
  if (!gate) {
    const state = candidate.status.replaceAll('_', ' ')
    return refuse('memory.candidate.nothing_pending', `Nothing is asked about this candidate: it is ${state}.`, {
      hint: 'GET /memory/candidates/{id} shows what became of it.',
    })
  }
  return decideApproval(approvals, decider, { ...answer, approvalId: gate.approval_id })
}
