/** Tells people through the channels outside, one notice and one attempt at a time, and keeps on record how each went. */
import { redactText } from '#kernel/secret-shapes'
import type { Random } from '#kernel/clock'
import { bySystem } from '#domains/identity'
import { findDatabaseTime } from './approval-repository.ts'
import { type DueNotice, nextNoticeAt, planNotices } from './decide-notices.ts'
import { appendApprovalEventOnce } from './events.ts'
import { recordNotified } from './remind-approvers.ts'
import { listNoticeRecords } from './sql/list-notice-records.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalDeps, BlockedNotice, NoticeChannel } from './deps.ts'

export type ApprovalDriveDeps = ApprovalDeps & {
  readonly channels: readonly NoticeChannel[]
  readonly random: Random
  readonly newTraceId: () => string
}

/** What is due now, by what is on record of earlier notices. */
export async function readDueNotices(
  { db, channels }: ApprovalDriveDeps,
  { command_id, approval_id }: StoredApproval,
  isBlocked: boolean,
) {
  const records = await db.run(listNoticeRecords, [command_id, approval_id])
  const names = channels.map(({ name }) => name)
  return planNotices(records, names, await findDatabaseTime(db), isBlocked)
}

/** One attempt of one channel; how it went is recorded either way. */
export async function deliverNotice(
  deps: ApprovalDriveDeps,
  approval: StoredApproval,
  { notice, channel: name, attempt }: DueNotice,
  { traceId, signal, blocked }: { traceId: string; signal: AbortSignal; blocked: BlockedNotice | undefined },
): Promise<void> {
  const channel = deps.channels.find((each) => each.name === name)
  if (!channel) return
  try {
    const told = notice === 'blocked' ? { blocked } : {}
    await channel.deliver({ id: `${approval.approval_id}:${notice}`, notice, approval, signal, ...told })
  } catch (error) {
    await recordFailure(deps, approval, { notice, channel: name, attempt, error, traceId })
    return
  }
  await deps.db.transaction((tx) => recordNotified(tx, approval, { channel: name, notice, traceId }))
}

type Failed = DueNotice & { readonly error: unknown; readonly traceId: string }
const ERROR_LENGTH_MAX = 500

async function recordFailure(
  { db, random }: ApprovalDriveDeps,
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
