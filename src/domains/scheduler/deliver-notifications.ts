/** What a sender of notifications asks for and reports: at least once, with the same id every time, and in the end given up. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { decideRetry } from '#kernel/retry'
import { outboxRetry } from '#kernel/retry-settings'
import { claimDueNotifications, findNotification, saveNotificationDelay, saveNotificationEnd } from './notifications.ts'
import { nowMs, requireOwner, type Scheduler } from './scheduler.ts'
import type { StoredNotification } from './stored-rows.ts'

/** Longer than any delivery may take; after that it is given out again. */
const CLAIM_MS = 60_000
const ERROR_CHARS_MAX = 500

/** The due ones, oldest first. Each counts as an attempt, whether its outcome is reported or not. */
export function claimNotifications(scheduler: Scheduler, limit = 20): Decision<readonly StoredNotification[]> {
  const owner = requireOwner(scheduler)
  if (!owner.ok) return owner
  const now = nowMs(scheduler)
  return scheduler.db.write((tx) => accept(claimDueNotifications(tx, now, now + CLAIM_MS, limit)))
}

export function recordDelivery(scheduler: Scheduler, notificationId: string): Decision<undefined> {
  return scheduler.db.write((tx) => {
    const isSaved = saveNotificationEnd(tx, notificationId, { status: 'DELIVERED', now: nowMs(scheduler) })
    return isSaved || findNotification(tx, notificationId)?.status === 'DELIVERED'
      ? accept(undefined)
      : unknown(notificationId)
  })
}

/** Waits longer after every failure; after the last attempt the row stays, as DEAD, for an operator to see. */
export function recordDeliveryFailure(
  scheduler: Scheduler,
  notificationId: string,
  error: string,
): Decision<'again' | 'dead'> {
  const lastError = error.slice(0, ERROR_CHARS_MAX)
  return scheduler.db.write((tx) => {
    const row = findNotification(tx, notificationId)
    if (row?.status !== 'PENDING') return unknown(notificationId)
    const now = nowMs(scheduler)
    const decision = decideRetry(outboxRetry, {
      attempt: Math.max(1, row.attempts),
      errorClass: 'transient_connector_error',
      random: scheduler.deps.random,
    })
    if (decision.retry) saveNotificationDelay(tx, notificationId, now + decision.delayMs, lastError)
    else saveNotificationEnd(tx, notificationId, { status: 'DEAD', now, lastError })
    return accept(decision.retry ? 'again' : 'dead')
  })
}

function unknown(notificationId: string): Decision<never> {
  return refuse('scheduler.notification.not_found', 'there is no such notification waiting', {
    facts: { notificationId },
  })
}
