/** An operator's word that an approval gets turns again, as an event in the operator's transaction. */
import type { By } from '#domains/identity'
import type { NewId } from '#kernel/clock'
import { redactText } from '#kernel/secret-shapes'
import { isUuid } from '#kernel/uuid'
import type { Tx } from '#store'
import { findApprovalOfTurn, findDatabaseTime } from './approval-repository.ts'
import { REASON_CHARS_MAX } from './decide-vote.ts'
import { appendApprovalEvent } from './events.ts'

/** False: there is no such approval, so there is nobody whose record it would be. */
export async function recordResumedApproval(
  tx: Tx,
  newId: NewId,
  by: By,
  { id, why, reason }: { readonly id: string; readonly why: string; readonly reason: string },
): Promise<boolean> {
  const approval = isUuid(id) ? await findApprovalOfTurn(tx, id) : undefined
  if (!approval) return false
  const at = await findDatabaseTime(tx)
  const payload = { why, reason: redactText(reason).slice(0, REASON_CHARS_MAX) }
  await appendApprovalEvent(tx, newId, { type: 'approval_resumed', approval, by, actorKind: 'operator', at, payload })
  return true
}
