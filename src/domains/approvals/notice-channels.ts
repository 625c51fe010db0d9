/** The two ways in which people hear of an approval: the inbox of the app, and a signed call to an address of the installation. */
import { createHmac } from 'node:crypto'
import type { Clock } from '#kernel/clock'
import { encodeId } from '#kernel/ids'
import { showActor } from './approver.ts'
import type { Delivery, NoticeChannel } from './deps.ts'

/** The inbox reads the approval itself and the event feed carries the record of the notice: there is nothing more to send. */
export const appChannel: NoticeChannel = { name: 'app', deliver: () => Promise.resolve() }

export type SignedReceiver = {
  readonly url: string
  readonly secret: Uint8Array
  readonly fetch: typeof fetch
  readonly now: Clock
}

const TIMEOUT_MS = 10_000

/** Signed as Concord expects it of others: `webhook-signature` is `v1=` and the hex HMAC-SHA-256 of `id.timestamp.body`. */
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
    if (!response.ok) throw new Error(`the receiver answered ${response.status}`)
  }
}

/** The body names the approval and never its arguments; whoever may decide reads those from the API. */
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
