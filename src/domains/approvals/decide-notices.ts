/** Which notices of an approval have to be delivered now, on which channel, and when there is something to do again. Pure. */
import { outboxRetry } from '#kernel/retry-settings'
import { decideRetry } from '#kernel/retry'
import type { Random } from '#kernel/clock'
import { askedContract } from './asked-contract.ts'
import type { NoticeRecord } from './sql/list-notice-records.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { NoticeName } from './deps.ts'

export type DueNotice = { readonly notice: NoticeName; readonly channel: string; readonly attempt: number }
export type NoticePlan = { readonly deliver: readonly DueNotice[]; readonly retryAt: Date | null }

/** Of several reminders only the newest is worth telling. */
export function planNotices(
  records: readonly NoticeRecord[],
  channels: readonly string[],
  now: Date,
  isBlocked = false,
): NoticePlan {
  const reminders = records
    .filter(({ event_type }) => event_type === 'approval_reminded')
    .map(({ payload }) => Number(payload['reminder']))
  const notices: NoticeName[] = [
    'requested',
    ...(reminders.length > 0 ? ([`reminder:${Math.max(...reminders)}`] as const) : []),
    ...(records.some(({ event_type }) => event_type === 'approval_escalated') ? (['escalation'] as const) : []),
    ...(isBlocked ? (['blocked'] as const) : []),
  ]
  const deliver: DueNotice[] = []
  const later: Date[] = []
  for (const notice of notices) {
    for (const channel of channels) {
      const of = records.filter(({ payload }) => payload['channel'] === channel && payload['notice'] === notice)
      if (of.some(({ event_type }) => event_type === 'approval_notified')) continue
      const failed = of.filter(({ event_type }) => event_type === 'approval_notice_failed')
      const retryAt = failed.length === 0 ? now : retryTimeOf(failed)
      // Given up: whoever looks into the inbox still finds it.
      if (retryAt === null) continue
      if (retryAt > now) later.push(retryAt)
      else deliver.push({ notice, channel, attempt: failed.length + 1 })
    }
  }
  return { deliver, retryAt: earliest(later) }
}

function retryTimeOf(failed: readonly NoticeRecord[]): Date | null {
  const at = failed.at(-1)?.payload['retry_at']
  return typeof at === 'string' ? new Date(at) : null
}

/** When a notice that failed is tried again; null: no more. */
export function nextNoticeAt(attempt: number, now: Date, random: Random): Date | null {
  const decision = decideRetry(outboxRetry, { attempt, errorClass: 'work_failed', random })
  return decision.retry ? new Date(now.getTime() + decision.delayMs) : null
}

/** The next time at which something about an open approval is due: a reminder, the next role, the end. */
export function nextApprovalTime(approval: StoredApproval, now: Date): Date | null {
  const { reminders_after_minutes: reminders, escalation } = askedContract(approval)
  const after = (minutes: number) => new Date(approval.created_at.getTime() + minutes * 60_000)
  const times = [...reminders.map(after), ...(escalation ? [after(escalation.after_minutes)] : [])]
  return earliest([...times.filter((time) => time > now), ...(approval.expires_at ? [approval.expires_at] : [])])
}

export function earliest(times: readonly (Date | null)[]): Date | null {
  const known = times.filter((time) => time !== null).map((time) => time.getTime())
  return known.length === 0 ? null : new Date(Math.min(...known))
}
