/** Notifies approvers: plans which notices are due on which channel, and makes one attempt of each. */
import { createHmac } from 'node:crypto'
import type { Clock, Random } from '#kernel/clock'
import { encodeId } from '#kernel/ids'
import { decideRetry } from '#kernel/retry'
import { outboxRetry } from '#kernel/retry-policy'
import { cutText } from '#kernel/cut-text'
import { redactText } from '#kernel/secret-shapes'
import { type Sql, statement } from '#store'
import { findDatabaseTime } from './approval.ts'
import type { Asking } from './check-deciders.ts'
import type { StoredApproval } from './stored-approval.ts'
import { showActor } from './approver.ts'
import { requestContract } from './decide-vote.ts'
import type { ApprovalDeps, BlockedNotice, Delivery, NoticeChannel, NoticeName } from './deps.ts'

type DueNotice = { readonly notice: NoticeName; readonly channel: string; readonly attempt: number }
type NoticePlan = { readonly deliver: readonly DueNotice[]; readonly retryAt: Date | null }

/** Of several reminders only the newest is delivered. */
export function planNotices(
  records: readonly NoticeRecord[],
  channels: readonly string[],
  now: Date,
  isBlocked = false,
): NoticePlan {
  const reminders = remindersOf(records)
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
      // No retry is left; the approval stays in the inbox.
      if (retryAt === null) continue
      if (retryAt > now) later.push(retryAt)
      else deliver.push({ notice, channel, attempt: failed.length + 1 })
    }
  }
  return { deliver, retryAt: earliest(later) }
}

function retryTimeOf(failed: readonly NoticeRecord[]): Date | null {
  return timeOf(failed.at(-1)?.payload['retry_at'])
}

export function timeOf(text: unknown): Date | null {
  return typeof text === 'string' ? new Date(text) : null
}

/** Returns the time of the next attempt of a failed notice, or null when no retry is left. */
export function nextNoticeAt(attempt: number, now: Date, random: Random): Date | null {
  const decision = decideRetry(outboxRetry, { attempt, errorClass: 'work_failed', random })
  return decision.retry ? new Date(now.getTime() + decision.delayMs) : null
}

/** Returns the next time at which a reminder, the escalation or the expiry of an open approval is due. */
export function nextApprovalTime(approval: StoredApproval, now: Date): Date | null {
  const { reminders_after_minutes: reminders, escalation } = requestContract(approval)
  const after = (minutes: number) => new Date(approval.created_at.getTime() + minutes * 60_000)
  const times = [...reminders.map(after), ...(escalation ? [after(escalation.after_minutes)] : [])]
  return earliest([...times.filter((time) => time > now), ...(approval.expires_at ? [approval.expires_at] : [])])
}

export function earliest(times: readonly (Date | null)[]): Date | null {
  const known = times.filter((time) => time !== null).map((time) => time.getTime())
  return known.length === 0 ? null : new Date(Math.min(...known))
}

export type NoticeRecord = {
  readonly event_type: 'approval_reminded' | 'approval_escalated' | 'approval_notified' | 'approval_notice_failed'
  readonly payload: Readonly<Record<string, unknown>>
}

type TurnRow = StoredApproval & {
  readonly read_at: Date
  readonly records: readonly NoticeRecord[]
  readonly others: readonly (Omit<Asking, 'created_at'> & { readonly created_at: string })[]
}

/** $1 approval. The events are found by the command, since the index is on it. */
const readTurnRow = statement<TurnRow>(
  'approvals.read_turn',
  `select t.*, statement_timestamp() as read_at,
          coalesce((select json_agg(json_build_object('event_type', e.event_type, 'payload', e.payload) order by e.seq)
             from concord.domain_events e
            where e.command_id = t.command_id and e.payload->>'approval_id' = t.approval_id::text
              and e.event_type in ('approval_reminded', 'approval_escalated', 'approval_notified', 'approval_notice_failed')
          ), '[]') as records,
          coalesce((select json_agg(to_json(o))
             from concord.approvals o
            where o.command_id = t.command_id and o.approval_id <> t.approval_id and o.superseded_by is null
              and o.domain_effect_id is null and t.domain_effect_id is null and o.status in ('pending', 'approved')
          ), '[]') as others
     from concord.approvals t where t.approval_id = $1::uuid`,
)

/** What a turn has to know: the approval, the time of the database, the recorded notices, and the other approvals of the command. */
type ApprovalTurn = {
  readonly approval: StoredApproval
  readonly now: Date
  readonly records: readonly NoticeRecord[]
  readonly others: readonly Asking[]
}

export async function readTurn(sql: Sql, approvalId: string): Promise<ApprovalTurn | undefined> {
  const [row] = await sql.run(readTurnRow, [approvalId])
  if (!row) return undefined
  const { read_at: now, records, others, ...approval } = row
  // A time in JSON is a text.
  const dated = others.map((other) => ({ ...other, created_at: new Date(other.created_at) }))
  return { approval, now, records, others: dated }
}

/** Whether the expiry, the escalation or a reminder is due. The sweeps check it again when they write. */
export function isDue({ approval, now, records }: ApprovalTurn): boolean {
  const { reminders_after_minutes: reminders, escalation } = requestContract(approval)
  const isPast = (minutes: number) => approval.created_at.getTime() + minutes * 60_000 <= now.getTime()
  const isExpired = approval.expires_at !== null && approval.expires_at <= now
  const isEscalated = escalation === null || approval.approver_roles.includes(escalation.role)
  return (
    isExpired ||
    (!isEscalated && isPast(escalation.after_minutes)) ||
    reminders.filter(isPast).length > Math.max(0, ...remindersOf(records))
  )
}

function remindersOf(records: readonly NoticeRecord[]): readonly number[] {
  return records
    .filter(({ event_type }) => event_type === 'approval_reminded')
    .map(({ payload }) => Number(payload['reminder']))
}

export type ApprovalDriveDeps = ApprovalDeps & {
  readonly channels: readonly NoticeChannel[]
  readonly random: Random
  readonly newTraceId: () => string
}

/** An event of one turn; the turn writes all of them together. */
export type NoticeFact = {
  readonly type: 'approval_notified' | 'approval_notice_failed' | 'approval_blocked'
  readonly at: Date
  readonly payload: Readonly<Record<string, unknown>>
  readonly round: string
}

type Attempt = { readonly at: Date; readonly signal: AbortSignal; readonly blocked: BlockedNotice | undefined }

/** Makes one attempt on one channel and returns its result. */
export async function deliverNotice(
  deps: ApprovalDriveDeps,
  approval: StoredApproval,
  due: DueNotice,
  { at, signal, blocked }: Attempt,
): Promise<NoticeFact> {
  const { notice, channel: name } = due
  const channel = deps.channels.find((each) => each.name === name)
  const told = notice === 'blocked' ? { blocked } : {}
  try {
    await channel?.deliver({ id: `${approval.approval_id}:${notice}`, notice, approval, signal, ...told })
  } catch (error) {
    return failedFact(deps, due, error, await findDatabaseTime(deps.db))
  }
  const payload = { channel: name, notice, approver: approval.approver }
  return { type: 'approval_notified', at, payload, round: `${name}:${notice}` }
}

const ERROR_LENGTH_MAX = 500

function failedFact(
  { random }: ApprovalDriveDeps,
  { notice, channel, attempt }: DueNotice,
  error: unknown,
  at: Date,
): NoticeFact {
  const text = error instanceof Error ? error.message : String(error)
  const payload = {
    channel,
    notice,
    attempt,
    // A receiver may repeat a rejected credential in its error.
    error: cutText(redactText(text.replaceAll('\0', '')), ERROR_LENGTH_MAX),
    retry_at: nextNoticeAt(attempt, at, random)?.toISOString() ?? null,
  }
  return { type: 'approval_notice_failed', at, payload, round: `${channel}:${notice}:${attempt}` }
}

/** Sends nothing: the inbox reads the approval itself, and the event feed carries the record of the notice. */
export const appChannel: NoticeChannel = { name: 'app', deliver: () => Promise.resolve() }

type SignedReceiver = {
  readonly url: string
  readonly secret: Uint8Array
  readonly fetch: typeof fetch
  readonly now: Clock
}

const TIMEOUT_MS = 10_000

/** Signs like the deliveries that Concord accepts: `webhook-signature` is `v1=` and the hex HMAC-SHA-256 of `id.timestamp.body`. */
export function openSignedPost({ url, secret, fetch: call, now }: SignedReceiver) {
  return async (id: string, content: object, signal: AbortSignal): Promise<void> => {
    const body = JSON.stringify(content)
    const timestamp = String(Math.floor(now().getTime() / 1_000))
    const signature = createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('hex')
    const response = await call(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1=${signature}`,
      },
      body,
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    await response.body?.cancel()
    if (!response.ok) throw new Error(`The receiver answered ${response.status}.`)
  }
}

/** The body names the approval without its arguments; approvers read those from the API. */
export function webhookChannel(receiver: SignedReceiver): NoticeChannel {
  const post = openSignedPost(receiver)
  return { name: 'webhook', deliver: (delivery) => post(delivery.id, noticeBody(delivery), delivery.signal) }
}

export function noticeBody({ notice, approval, blocked }: Pick<Delivery, 'notice' | 'approval' | 'blocked'>) {
  const id = encodeId('approval', approval.approval_id)
  return {
    type: `approval.${notice.startsWith('reminder') ? 'reminder' : notice}`,
    notice,
    approval_id: id,
    approval_type: approval.approval_type,
    command_id: encodeId('command', approval.command_id),
    workspace_id: encodeId('workspace', approval.workspace_id),
    approver: showActor(approval.approver),
    approvers: (approval.request_payload.approvers ?? []).map(showActor),
    approver_roles: approval.approver_roles,
    requested_by: showActor(approval.requested_by),
    summary: approval.review_packet.requested_action.summary,
    risk_level: approval.review_packet.risk_level,
    created_at: approval.created_at.toISOString(),
    expires_at: approval.expires_at?.toISOString() ?? null,
    path: `/approvals/${id}`,
    ...(blocked ? { blocked_by: blocked.blocked, admins: blocked.admins.map(showActor) } : {}),
  }
}
