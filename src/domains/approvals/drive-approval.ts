/**
 * The turns of an open approval: whoever was asked is told, reminded, the next role is let in, and its end comes when its time is
 * over. All of it is on rows and events, so any number of drivers, dead or alive, do each thing once; only a channel may
 * hear a notice twice, under one id.
 */
import type { Random } from '#kernel/clock'
import { redactText } from '#kernel/secret-shapes'
import type { Drive, Next } from '#runtime'
import { findDatabaseTime, findApprovalOfTurn } from './approval-repository.ts'
import { bySystem } from '#domains/identity'
import { type DueNotice, earliest, nextApprovalTime, nextNoticeAt, planNotices } from './decide-notices.ts'
import { appendApprovalEventOnce } from './events.ts'
import { expireApprovals } from './expire-approvals.ts'
import { escalateApprovals, recordNotified, remindApprovers } from './remind-approvers.ts'
import { listNoticeRecords } from './sql/list-notice-records.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalWorld, NoticeChannel, Notify } from './world.ts'

/** Each open approval is a process of this kind under its own id. */
export const APPROVAL_KIND = 'approval'
export const APPROVAL_QUEUE = 'notifications'

export type ApprovalDriveWorld = ApprovalWorld & {
  readonly channels: readonly NoticeChannel[]
  readonly random: Random
  readonly newTraceId: () => string
}

const done: Next = { t: 'done' }
/** This turn tells what it finds on record; nobody else has to be woken. */
const nobody: Notify = () => Promise.resolve()

export function openApprovalDrive(world: ApprovalDriveWorld): Drive {
  return async (approvalId, { signal }) => {
    const sweep = { approvalId, traceId: world.newTraceId() }
    const asked = await findApprovalOfTurn(world.db, approvalId)
    if (asked?.status !== 'pending') return done
    // The end first: a channel that hangs must not hold it up.
    throwFirst((await expireApprovals(world, sweep)).failed)
    throwFirst((await escalateApprovals(world, nobody, sweep)).failed)
    throwFirst((await remindApprovers(world, nobody, sweep)).failed)
    const approval = await findApprovalOfTurn(world.db, approvalId)
    if (approval?.status !== 'pending') return done
    const plan = await planOf(world, approval)
    for (const due of plan.deliver) await tell(world, approval, due, sweep.traceId, signal)
    const now = await findDatabaseTime(world.db)
    const { deliver, retryAt } = await planOf(world, approval)
    if (deliver.length > 0) return { t: 'again' }
    return { t: 'wait', until: earliest([retryAt, nextApprovalTime(approval, now)]) }
  }
}

/** The runtime tries a failed turn again, and shows one that never succeeds. */
function throwFirst(failed: readonly { readonly error: unknown }[]): void {
  const [first] = failed
  if (first) throw first.error
}

async function planOf({ db, channels }: ApprovalDriveWorld, { command_id, approval_id }: StoredApproval) {
  const records = await db.run(listNoticeRecords, [command_id, approval_id])
  const names = channels.map(({ name }) => name)
  return planNotices(records, names, await findDatabaseTime(db))
}

async function tell(
  world: ApprovalDriveWorld,
  approval: StoredApproval,
  { notice, channel: name, attempt }: DueNotice,
  traceId: string,
  signal: AbortSignal,
): Promise<void> {
  const channel = world.channels.find((each) => each.name === name)
  if (!channel) return
  try {
    await channel.deliver({ id: `${approval.approval_id}:${notice}`, notice, approval, signal })
  } catch (error) {
    await recordFailure(world, approval, { notice, channel: name, attempt, error, traceId })
    return
  }
  await world.db.transaction((tx) => recordNotified(tx, approval, { channel: name, notice, traceId }))
}

type Failed = DueNotice & { readonly error: unknown; readonly traceId: string }
const ERROR_LENGTH_MAX = 500

async function recordFailure(
  { db, random }: ApprovalDriveWorld,
  approval: StoredApproval,
  { notice, channel, attempt, error, traceId }: Failed,
): Promise<void> {
  const at = await findDatabaseTime(db)
  const retryAt = nextNoticeAt(attempt, at, random)
  const text = error instanceof Error ? error.message : String(error)
  const payload = {
    channel,
    notice,
    attempt,
    // A receiver may repeat the credential that it did not like.
    error: redactText(text.replaceAll('\0', '')).slice(0, ERROR_LENGTH_MAX),
    retry_at: retryAt?.toISOString() ?? null,
  }
  const by = bySystem(traceId)
  const fact = { type: 'approval_notice_failed', approval, by, actorKind: 'system', at, payload } as const
  await db.transaction((tx) => appendApprovalEventOnce(tx, fact, `${channel}:${notice}:${attempt}`))
}
