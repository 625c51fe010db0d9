/**
 * The turns of an open approval: they notify and remind approvers, escalate, and expire it. Rows and events record each step, so
 * any number of drivers do it once; only a channel may receive a notice twice, under one id.
 */
import type { Actor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { redactText } from '#kernel/secret-shapes'
import { isUuid } from '#kernel/ids'
import type { Drive, Next } from '#runtime'
import type { Tx } from '#store'
import { actorAs, approvalTable, findApprovalOfTurn, findDatabaseTime } from './approval.ts'
import { noteBlocked } from './check-deciders.ts'
import { REASON_CHARS_MAX } from './decide-vote.ts'
import type { Notify } from './deps.ts'
import {
  type ApprovalDriveDeps,
  deliverNotice,
  earliest,
  nextApprovalTime,
  readDueNotices,
} from './notify-approvers.ts'
import { escalateApprovals, expireApprovals, remindApprovers } from './sweep-approvals.ts'

/** Each open approval is a process of this kind under its own id. */
export const APPROVAL_KIND = 'approval'
export const APPROVAL_QUEUE = 'notifications'

const done: Next = { t: 'done' }
/** This turn delivers the recorded notices itself, so it wakes no other. */
const wakeNobody: Notify = () => Promise.resolve()

export function openApprovalDrive(deps: ApprovalDriveDeps): Drive {
  return async (approvalId, { signal }) => {
    const sweep = { approvalId, traceId: deps.newTraceId() }
    const asked = await findApprovalOfTurn(deps.db, approvalId)
    if (asked?.status !== 'pending') return done
    // Expiry comes first, so that a hanging channel does not delay it.
    throwFirst((await expireApprovals(deps, sweep)).failed)
    throwFirst((await escalateApprovals(deps, wakeNobody, sweep)).failed)
    throwFirst((await remindApprovers(deps, wakeNobody, sweep)).failed)
    const approval = await findApprovalOfTurn(deps.db, approvalId)
    if (approval?.status !== 'pending') return done
    const blocked = await noteBlocked(deps, approval, sweep.traceId)
    const isBlocked = blocked !== undefined
    const plan = await readDueNotices(deps, approval, isBlocked)
    const { traceId } = sweep
    for (const due of plan.deliver) await deliverNotice(deps, approval, due, { traceId, signal, blocked })
    const now = await findDatabaseTime(deps.db)
    const { deliver, retryAt } = await readDueNotices(deps, approval, isBlocked)
    if (deliver.length > 0) return { t: 'again' }
    return { t: 'wait', until: earliest([retryAt, nextApprovalTime(approval, now)]) }
  }
}

/** The runtime retries a failed turn, and reports one that never succeeds. */
function throwFirst(failed: readonly { readonly error: unknown }[]): void {
  const [first] = failed
  if (first) throw first.error
}

/** Returns false when there is no such approval. */
export async function recordResumedApproval(
  tx: Tx,
  newId: NewId,
  by: Actor,
  { id, why, reason }: { readonly id: string; readonly why: string; readonly reason: string },
): Promise<boolean> {
  const approval = isUuid(id) ? await findApprovalOfTurn(tx, id) : undefined
  if (!approval) return false
  const at = await findDatabaseTime(tx)
  const payload = { why, reason: redactText(reason).slice(0, REASON_CHARS_MAX) }
  await approvalTable.append(tx, approval, actorAs(by, 'operator'), { type: 'approval_resumed', at, newId, payload })
  return true
}
