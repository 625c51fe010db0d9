/** The outbox: what is to be told outside is a row of the transaction that made it true, and is sent after the commit. */
import type { JsonObject } from '#kernel/json-value'
import type { Reader, Tx } from './database.ts'
import { statement } from './statement.ts'
import type { NotificationKind, StoredNotification } from './stored-rows.ts'

const COLUMNS = `seq, notification_id, kind, job_id, payload, status, attempts, next_attempt_at, last_error, created_at, ended_at`

type NewNotification = {
  readonly notification_id: string
  readonly kind: NotificationKind
  readonly job_id: string | null
  readonly payload: string
  readonly now: number
}

const insertNotification = statement<never, NewNotification>(
  'insert_notification',
  `insert into notifications (notification_id, kind, job_id, payload, next_attempt_at, created_at)
   values ($notification_id, $kind, $job_id, $payload, $now, $now) on conflict (notification_id) do nothing`,
)
const selectNotification = statement<StoredNotification, { notification_id: string }>(
  'select_notification',
  `select ${COLUMNS} from notifications where notification_id = $notification_id`,
)
/** A claimed one comes back by itself when its sender dies: it is due again at `again_at`. */
const claimDue = statement<StoredNotification, { now: number; again_at: number; limit: number }>(
  'claim_due_notifications',
  `update notifications set attempts = attempts + 1, next_attempt_at = $again_at
    where seq in (select seq from notifications where status = 'PENDING' and next_attempt_at <= $now
                   order by next_attempt_at, seq limit $limit)
   returning ${COLUMNS}`,
)
const endNotification = statement<
  never,
  { notification_id: string; status: 'DELIVERED' | 'DEAD'; now: number; last_error: string | null }
>(
  'end_notification',
  `update notifications set status = $status, ended_at = $now, last_error = coalesce($last_error, last_error)
    where notification_id = $notification_id and status = 'PENDING'`,
)
const postponeNotification = statement<never, { notification_id: string; next_attempt_at: number; last_error: string }>(
  'postpone_notification',
  `update notifications set next_attempt_at = $next_attempt_at, last_error = $last_error
    where notification_id = $notification_id and status = 'PENDING'`,
)
const listNewest = statement<StoredNotification, { before: number; limit: number }>(
  'list_notifications',
  `select ${COLUMNS} from notifications where seq < $before order by seq desc limit $limit`,
)

export type Told = {
  readonly kind: NotificationKind
  /** What it is about: with the kind it makes the id, so the same fact is told once, however often it is written. */
  readonly about: string
  readonly jobId?: string
  readonly payload: JsonObject
}

export function tell(tx: Tx, { kind, about, jobId, payload }: Told, now: number): void {
  const notification_id = `${kind}:${about}`
  tx.run(insertNotification, { notification_id, kind, job_id: jobId ?? null, payload: JSON.stringify(payload), now })
}

export function findNotification(reader: Reader, notificationId: string): StoredNotification | undefined {
  return reader.one(selectNotification, { notification_id: notificationId })
}

export function claimDueNotifications(tx: Tx, now: number, againAt: number, limit: number): StoredNotification[] {
  return tx.all(claimDue, { now, again_at: againAt, limit }).toSorted((a, b) => a.seq - b.seq)
}

export function saveNotificationEnd(
  tx: Tx,
  notificationId: string,
  end: { readonly status: 'DELIVERED' | 'DEAD'; readonly now: number; readonly lastError?: string },
): boolean {
  const { status, now, lastError = null } = end
  return tx.run(endNotification, { notification_id: notificationId, status, now, last_error: lastError }) === 1
}

export function saveNotificationDelay(
  tx: Tx,
  notificationId: string,
  nextAttemptAt: number,
  lastError: string,
): boolean {
  const row = { notification_id: notificationId, next_attempt_at: nextAttemptAt, last_error: lastError }
  return tx.run(postponeNotification, row) === 1
}

/** Newest first. */
export function listNotifications(
  reader: Reader,
  limit: number,
  before = Number.MAX_SAFE_INTEGER,
): StoredNotification[] {
  return reader.all(listNewest, { before, limit })
}
