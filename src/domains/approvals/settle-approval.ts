/** What follows from an answer, in its transaction: the others are closed if it ends them, and the owner acts. */
import type { By } from '#domains/identity'
import { together, type Tx } from '#store'
import { type Locked, lockQuestions, saveCancelled } from './approval-repository.ts'
import { type NextStep, nextStep } from './decide-vote.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalDeps, LockedCommand } from './deps.ts'

export type LockedSubject = Locked & { readonly command?: LockedCommand }

/** The owner's row first, then all approvals of the subject in their order: everybody locks in one order. */
export async function lockSubject(
  tx: Tx,
  { owner }: Pick<ApprovalDeps, 'owner'>,
  approval: StoredApproval,
): Promise<LockedSubject> {
  // Sent in this order, in one round trip: the second waits in the database until the first has its lock.
  const [command, locked] = await together([owner.lockCommand?.(tx, approval), lockQuestions(tx, approval)])
  return command ? { ...locked, command } : locked
}

/** `approval` as it is after its move; `locked` as everything was before it. */
export async function settleApproval(
  tx: Tx,
  { owner, newId }: Pick<ApprovalDeps, 'owner' | 'newId'>,
  approval: StoredApproval,
  locked: LockedSubject,
  by: By,
): Promise<NextStep> {
  const others = locked.approvals.filter(({ approval_id }) => approval_id !== approval.approval_id)
  const next = nextStep(approval, others)
  if (approval.status !== 'approved') {
    for (const other of others.filter(({ status }) => status === 'pending')) {
      await saveCancelled(tx, other, {
        by,
        at: locked.at,
        newId,
        actorKind: 'system',
        why: `another_${approval.status}`,
      })
    }
  }
  await owner.onResolved(tx, { approval, next, by, at: locked.at }, locked.command)
  return next
}
