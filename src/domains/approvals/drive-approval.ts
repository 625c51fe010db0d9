/**
 * The turns of an open approval: they notify and remind approvers, escalate, and expire it. Rows and events record each step, so
 * any number of drivers do it once; only a channel may receive a notice twice, under one id.
 */
import { type Actor, bySystem } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { cutText } from '#kernel/cut-text'
import { redactText } from '#kernel/secret-shapes'
import { isUuid } from '#kernel/ids'
import type { Drive, Next } from '#runtime'
import { failpoint, type Tx } from '#store'
import { actorAs, approvalTable, findApprovalOfTurn, findDatabaseTime } from './approval.ts'
import { blockedFact, findBlocked } from './check-deciders.ts'
import { REASON_CHARS_MAX } from './decide-vote.ts'
import type { Notify } from './deps.ts'
import {
  type ApprovalDriveDeps,
  deliverNotice,
  earliest,
  isDue,
  nextApprovalTime,
  type NoticeFact,
  planNotices,
  readTurn,
  timeOf,
} from './notify-approvers.ts'
import { escalateApprovals, expireApprovals, remindApprovers } from './sweep-approvals.ts'

/** Each open approval is a process of this kind under its own id. */
export const APPROVAL_KIND = 'approval'
export const APPROVAL_QUEUE = 'notifications'

const done: Next = { t: 'done' }
/** This turn delivers the recorded notices itself, so it wakes no other. */
const wakeNobody: Notify = () => Promise.resolve()

/** One read, one look at the people, and one write, unless something is due by the clock. */
export function openApprovalDrive(deps: ApprovalDriveDeps): Drive {
  return async (approvalId, { signal }) => {
    const sweep = { approvalId, traceId: deps.newTraceId() }
    let turn = await readTurn(deps.db, approvalId)
    if (turn?.approval.status === 'pending' && isDue(turn)) {
      // Expiry comes first, so that a hanging channel does not delay it.
      throwFirst((await expireApprovals(deps, sweep)).failed)
      throwFirst((await escalateApprovals(deps, wakeNobody, sweep)).failed)
      throwFirst((await remindApprovers(deps, wakeNobody, sweep)).failed)
      turn = await readTurn(deps.db, approvalId)
    }
    if (turn?.approval.status !== 'pending') return done
    const { approval, now, records } = turn
    const blocked = await findBlocked(deps, turn)
    const channels = deps.channels.map(({ name }) => name)
    const { deliver, retryAt } = planNotices(records, channels, now, blocked !== undefined)
    const facts: NoticeFact[] = blocked ? [blockedFact(blocked, now)] : []
    for (const due of deliver) facts.push(await deliverNotice(deps, approval, due, { at: now, signal, blocked }))
    if (deliver.length > 0) await failpoint('approvals.notices_delivered')
    if (facts.length > 0) await approvalTable.appendOnce(deps.db, approval, bySystem(sweep.traceId), facts)
    const retries = facts.map(({ payload }) => timeOf(payload['retry_at']))
    return { t: 'wait', until: earliest([retryAt, ...retries, nextApprovalTime(approval, now)]) }
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
  const payload = { why, reason: cutText(redactText(reason), REASON_CHARS_MAX) }
  await approvalTable.append(tx, approval, actorAs(by, 'operator'), { type: 'approval_resumed', at, newId, payload })
  return true
}
