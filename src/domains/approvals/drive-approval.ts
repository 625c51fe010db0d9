/**
 * The turns of an open approval: whoever was asked is told, reminded, the next role is let in, and its end comes when its time is
 * over. All of it is on rows and events, so any number of drivers, dead or alive, do each thing once; only a channel may
 * hear a notice twice, under one id.
 */
import type { Drive, Next } from '#runtime'
import { findDatabaseTime, findApprovalOfTurn } from './approval-repository.ts'
import { earliest, nextApprovalTime } from './decide-notices.ts'
import { type ApprovalDriveDeps, deliverNotice, readDueNotices } from './deliver-notices.ts'
import { expireApprovals } from './expire-approvals.ts'
import { noteBlocked } from './note-blocked.ts'
import { escalateApprovals, remindApprovers } from './remind-approvers.ts'
import type { Notify } from './deps.ts'

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
