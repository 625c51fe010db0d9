/**
 * Takes what is to be told out of the outbox to whoever wants to know: at least once, signed, with the same id every time, and
 * later again while the receiver fails.
 */
import { createHmac } from 'node:crypto'
import { type Decision, accept, refuse } from '#kernel/refusal'
import { claimNotifications, recordDelivery, recordDeliveryFailure } from './deliver-notifications.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import { toNotificationView } from './schedule-views.ts'
import type { StoredNotification } from './stored-rows.ts'

/** Accepts when the receiver has it. `sentAtMs` is part of what is signed. */
export type Deliver = (
  notification: StoredNotification,
  sentAtMs: number,
  signal: AbortSignal,
) => Promise<Decision<undefined>>

/** For a scheduler that nobody listens to: the outbox stays small. */
export const noReceiver: Deliver = async () => accept(undefined)

export type Undelivered = { readonly notificationId: string; readonly error: string; readonly next: string }

/** Everything that is due, oldest first; one that fails does not hold up the others. */
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
      // Not told in time: it is due again when its claim runs out.
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
  /** An end to every attempt, from the caller's clock. */
  readonly timeout: (ms: number) => AbortSignal
  readonly timeoutMs?: number
}

/** Well under the minute after which a claimed notification is given out again. */
const TIMEOUT_MS = 10_000

/** Over id, time and body, so that neither of them can be exchanged; the form of standardwebhooks.com. */
export function signNotification(secret: string, id: string, timestamp: string, body: string): string {
  return `v1,${createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

export function webhookDeliver({ url, secret, fetch, timeout, timeoutMs = TIMEOUT_MS }: Webhook): Deliver {
  return async (notification, sentAtMs, signal) => {
    const body = JSON.stringify(toNotificationView(notification))
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
        // A redirect would carry the signature to somebody else.
        redirect: 'manual',
        signal: AbortSignal.any([signal, timeout(timeoutMs)]),
      })
      await response.body?.cancel()
      return response.ok ? accept(undefined) : failed(`the receiver answered ${response.status}`)
    } catch (error) {
      const { message, cause } = error as Error & { cause?: { code?: string } }
      return failed(`the receiver cannot be reached: ${cause?.code ?? message}`)
    }
  }
}

function failed(reason: string): Decision<never> {
  return refuse('scheduler.notification.undelivered', reason)
}
