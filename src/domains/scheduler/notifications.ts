/** The outbox: stores notifications in the transaction that caused them, and delivers them by signed webhook after the commit. */
import { createHmac } from 'node:crypto'
import { z } from 'zod'
import { timeView } from '#contract'
import type { JsonObject } from '#kernel/json-value'
import { PAGE_LIMIT_DEFAULT } from '#kernel/page-limit'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { decideRetry } from '#kernel/retry'
import { outboxRetry } from '#kernel/retry-policy'
import { type SqlReader, query, type WriteTx } from './database.ts'
import { nowMs, requireOwner, type Scheduler } from './scheduler.ts'
import {
  defineView,
  type NotificationKind,
  notificationKinds,
  objectView,
  readObject,
  showTime,
  type StoredJobNotification,
} from './stored-rows.ts'

const COLUMNS = `seq, notification_id, kind, job_id, payload, status, attempts, next_attempt_at, last_error, created_at, ended_at`

type NewNotification = Pick<StoredJobNotification, 'notification_id' | 'kind' | 'job_id' | 'payload'> & {
  readonly now: number
}

const insertNotification = query<never, NewNotification>(`
   insert into notifications (notification_id, kind, job_id, payload, next_attempt_at, created_at)
   values ($notification_id, $kind, $job_id, $payload, $now, $now) on conflict (notification_id) do nothing`)
const selectNotification = query<StoredJobNotification, { notification_id: string }>(
  `select ${COLUMNS} from notifications where notification_id = $notification_id`,
)
/** Claims due notifications. If the sender dies, they are due again at `again_at`. */
const claimDue = query<StoredJobNotification, { now: number; again_at: number; limit: number }>(`
   update notifications set attempts = attempts + 1, next_attempt_at = $again_at
    where seq in (select seq from notifications where status = 'PENDING' and next_attempt_at <= $now
                   order by next_attempt_at, seq limit $limit)
   returning ${COLUMNS}`)
const endNotification = query<
  never,
  { notification_id: string; status: 'DELIVERED' | 'DEAD'; now: number; last_error: string | null }
>(`
   update notifications set status = $status, ended_at = $now, last_error = coalesce($last_error, last_error)
    where notification_id = $notification_id and status = 'PENDING'`)
const postponeNotification = query<never, { notification_id: string; next_attempt_at: number; last_error: string }>(`
   update notifications set next_attempt_at = $next_attempt_at, last_error = $last_error
    where notification_id = $notification_id and status = 'PENDING'`)
const listNewest = query<StoredJobNotification, { before: number; limit: number }>(
  `select ${COLUMNS} from notifications where seq < $before order by seq desc limit $limit`,
)

export type Notice = {
  readonly kind: NotificationKind
  /** The subject. Kind and subject form the id, so writing the same fact again adds no second notification. */
  readonly about: string
  readonly jobId?: string
  readonly payload: JsonObject
}

export function notify(tx: WriteTx, { kind, about, jobId, payload }: Notice, now: number): void {
  const notification_id = `${kind}:${about}`
  tx.run(insertNotification, { notification_id, kind, job_id: jobId ?? null, payload: JSON.stringify(payload), now })
}

function findNotification(reader: SqlReader, notificationId: string): StoredJobNotification | undefined {
  return reader.one(selectNotification, { notification_id: notificationId })
}

/** Newest first; `before` is the last `seq` of the previous page. */
export function readNotifications(
  scheduler: Scheduler,
  {
    limit = PAGE_LIMIT_DEFAULT,
    before = Number.MAX_SAFE_INTEGER,
  }: { readonly limit?: number; readonly before?: number } = {},
): Decision<readonly StoredJobNotification[]> {
  return scheduler.db.read((reader) => accept(reader.all(listNewest, { before, limit })))
}

const view = defineView<StoredJobNotification>()({
  notification_id: [
    z.string().meta({ description: 'Identical for every delivery of the same fact.' }),
    (row) => row.notification_id,
  ],
  kind: [z.enum(notificationKinds), (row) => row.kind],
  payload: [objectView, (row) => readObject(row.payload)],
  created_at: [timeView(), (row) => showTime(row.created_at)],
})
export const jobNotificationView = view.schema.meta({ id: 'SchedulerNotification' })
export const toJobNotificationView = view.show

/** Delivers one notification and accepts once the receiver confirms it. `sentAtMs` is part of the signature. */
export type Deliver = (
  notification: StoredJobNotification,
  sentAtMs: number,
  signal: AbortSignal,
) => Promise<Decision<undefined>>

/** For a scheduler without a receiver: keeps the outbox small. */
export const noReceiver: Deliver = async () => accept(undefined)

export type Undelivered = { readonly notificationId: string; readonly error: string; readonly next: string }

/** Delivers everything that is due, oldest first. A failed delivery does not block the others. */
export async function deliverDue(
  scheduler: Scheduler,
  deliver: Deliver,
  signal: AbortSignal,
  onFailure: (failed: Undelivered) => void = () => {},
): Promise<void> {
  while (!signal.aborted) {
    const claimed = claimNotifications(scheduler)
    if (!claimed.ok || claimed.value.length === 0) return
    scheduler.pass('notification.claimed')
    for (const notification of claimed.value) {
      const { notification_id: notificationId } = notification
      const delivered = await deliver(notification, nowMs(scheduler), signal)
      // Aborted before the answer: the notification is due again when its claim expires.
      if (!delivered.ok && signal.aborted) return
      scheduler.pass('notification.sent')
      if (delivered.ok) recordDelivery(scheduler, notificationId)
      else {
        const failed = recordDeliveryFailure(scheduler, notificationId, delivered.reason)
        onFailure({ notificationId, error: delivered.reason, next: failed.ok ? failed.value : failed.code })
      }
    }
  }
}

export type Webhook = {
  readonly url: string
  readonly secret: string
  readonly fetch: typeof fetch
  /** Returns the timeout signal of one attempt, from the caller's clock. */
  readonly timeout: (ms: number) => AbortSignal
  readonly timeoutMs?: number
}

/** Well under the minute after which a claim expires. */
const TIMEOUT_MS = 10_000

/** Signs id, time and body, so that none of them can be replaced; in the format of standardwebhooks.com. */
export function signNotification(secret: string, id: string, timestamp: string, body: string): string {
  return `v1,${createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

export function webhookDeliver({ url, secret, fetch, timeout, timeoutMs = TIMEOUT_MS }: Webhook): Deliver {
  return async (notification, sentAtMs, signal) => {
    const body = JSON.stringify(toJobNotificationView(notification))
    const id = notification.notification_id
    const timestamp = String(Math.floor(sentAtMs / 1_000))
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'user-agent': 'concord-scheduler',
          'webhook-id': id,
          'webhook-timestamp': timestamp,
          'webhook-signature': signNotification(secret, id, timestamp, body),
        },
        body,
        // A redirect would send the signature to another host.
        redirect: 'manual',
        signal: AbortSignal.any([signal, timeout(timeoutMs)]),
      })
      await response.body?.cancel()
      return response.ok ? accept(undefined) : failed(`The receiver answered ${response.status}.`)
    } catch (error) {
      const { message, cause } = error as Error & { cause?: { code?: string } }
      return failed(`The receiver cannot be reached: ${cause?.code ?? message}.`)
    }
  }
}

function failed(reason: string): Decision<never> {
  return refuse('scheduler.notification.undelivered', reason)
}

/** The lifetime of a claim, longer than any delivery may take. */
const CLAIM_MS = 60_000
const ERROR_CHARS_MAX = 500

/** Claims the due notifications, oldest first. Each claim counts as an attempt, even without a reported outcome. */
export function claimNotifications(scheduler: Scheduler, limit = 20): Decision<readonly StoredJobNotification[]> {
  const owner = requireOwner(scheduler)
  if (!owner.ok) return owner
  const now = nowMs(scheduler)
  return scheduler.db.write((tx) => {
    const claimed = tx.all(claimDue, { now, again_at: now + CLAIM_MS, limit })
    return accept(claimed.toSorted((one, other) => one.seq - other.seq))
  })
}

export function recordDelivery(scheduler: Scheduler, notificationId: string): Decision<undefined> {
  return scheduler.db.write((tx) => {
    const end = { status: 'DELIVERED', now: nowMs(scheduler), last_error: null } as const
    const isSaved = tx.run(endNotification, { notification_id: notificationId, ...end }) === 1
    return isSaved || findNotification(tx, notificationId)?.status === 'DELIVERED'
      ? accept(undefined)
      : unknown(notificationId)
  })
}

/** Schedules the next attempt with backoff. After the last attempt the row stays as DEAD, for an operator to see. */
export function recordDeliveryFailure(
  scheduler: Scheduler,
  notificationId: string,
  error: string,
): Decision<'again' | 'dead'> {
  return scheduler.db.write((tx) => {
    const pending = findNotification(tx, notificationId)
    if (pending?.status !== 'PENDING') return unknown(notificationId)
    const now = nowMs(scheduler)
    const decision = decideRetry(outboxRetry, {
      attempt: Math.max(1, pending.attempts),
      errorClass: 'transient_connector_error',
      random: scheduler.deps.random,
    })
    const row = { notification_id: notificationId, last_error: error.slice(0, ERROR_CHARS_MAX) }
    if (decision.retry) tx.run(postponeNotification, { ...row, next_attempt_at: now + decision.delayMs })
    else tx.run(endNotification, { ...row, status: 'DEAD', now })
    return accept(decision.retry ? 'again' : 'dead')
  })
}

function unknown(notificationId: string): Decision<never> {
  return refuse('scheduler.notification.not_found', 'No pending notification has this id.', {
    facts: { notificationId },
  })
}
