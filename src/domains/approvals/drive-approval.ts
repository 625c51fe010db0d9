/** The turns of an open approval: approvers are told and reminded, the next role is let in, and it expires. All of it is on rows and events, so any number of drivers do each thing once; only a channel may hear a notice twice, under one id. */
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
/** This turn tells what it finds on record; nobody else has to be woken. */
const nobody: Notify = () => Promise.resolve()

export function openApprovalDrive(deps: ApprovalDriveDeps): Drive {
  return async (approvalId, { signal }) => {
    const sweep = { approvalId, traceId: deps.newTraceId() }
    const asked = await findApprovalOfTurn(deps.db, approvalId)
    if (asked?.status !== 'pending') return done
    // The end first: a channel that hangs must not hold it up.
    throwFirst((await expireApprovals(deps, sweep)).failed)
    throwFirst((await escalateApprovals(deps, nobody, sweep)).failed)
    throwFirst((await remindApprovers(deps, nobody, sweep)).failed)
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

/** The runtime tries a failed turn again, and shows one that never succeeds. */
function throwFirst(failed: readonly { readonly error: unknown }[]): void {
  const [first] = failed
  if (first) throw first.error
}

/** False: there is no such approval, so there is nobody whose record it would be. */
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
