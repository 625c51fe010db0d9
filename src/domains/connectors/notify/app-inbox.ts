/** What was sent to somebody in the app, newest first, and what of it they have read. */
import { z } from 'zod'
import { idView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, statement } from '#store'
import { listNotificationsSql, type StoredNotification } from '../sql/list-notifications.ts'
import { markNotificationsReadSql } from '../sql/mark-notifications-read.ts'

export const notificationView = z
  .object({
    notification_id: idView('connector_invocation', 'The call that sent it.'),
    command_id: z.string(),
    subject: z.string(),
    text: z.string(),
    created_at: z.string().meta({ format: 'date-time' }),
    read_at: z.string().nullable().meta({ format: 'date-time', description: 'When you read it first; null: not yet.' }),
  })
  .meta({ id: 'Notification', description: 'A message in the app.' })

/** Whose inbox: the person, and every name under which a message may have been sent to them. */
export type Inbox = { readonly workspaceId: string; readonly userId: string; readonly recipients: readonly string[] }

/** `before`: only what was sent before this message. */
export type InboxPage = { readonly limit: number; readonly onlyUnread?: boolean; readonly before?: string | null }

export function listNotifications(
  sql: Sql,
  inbox: Inbox,
  { limit, onlyUnread = false, before = null }: InboxPage,
): Promise<readonly StoredNotification[]> {
  const { workspaceId, recipients, userId } = inbox
  return sql.run(listNotificationsSql, [workspaceId, recipients, userId, limit, onlyUnread, null, before])
}

export type NewNotification = {
  readonly id: string
  readonly workspaceId: string
  /** What it is about. */
  readonly commandId: string
  readonly traceId: string
  /** Messages with one key are one message. */
  readonly key: string
  readonly recipient: string
  readonly subject: string
  readonly text: string
  readonly at: Date
}

/** Concord's own messages have its own name as connector: no call was made and no limit counts them. */
const insertNotification = statement<never>(
  'connectors_insert_notification',
  `insert into concord.connector_invocations (connector_invocation_id, workspace_id, command_id, connector_name, operation,
     side_effect, idempotency_key, status, request_payload, trace_id, attempt, created_at, completed_at)
   values ($1, $2, $3, 'concord', 'send_app_notification', true, $4, 'succeeded', $5::jsonb, $6, 1, $7, $7)`,
)

/** A message of Concord itself, which no effect sends. */
export async function postNotification(sql: Sql, { id, key, at, ...note }: NewNotification): Promise<void> {
  const { workspaceId, commandId, traceId, recipient, subject, text } = note
  await sql.run(insertNotification, [id, workspaceId, commandId, key, { recipient, subject, text }, traceId, at])
}

/** Reading it again changes nothing: the first time stands. */
export async function readNotification(
  sql: Sql,
  { workspaceId, recipients, userId }: Inbox,
  notificationId: string,
  at: Date,
): Promise<Decision<StoredNotification>> {
  await sql.run(markNotificationsReadSql, [workspaceId, recipients, userId, notificationId, at])
  const [read] = await sql.run(listNotificationsSql, [workspaceId, recipients, userId, 1, false, notificationId, null])
  return read ? accept(read) : refuse('connectors.notification.not_found', 'No such message was sent to you here.')
}

/** How many of them were new. */
export async function readAllNotifications(
  sql: Sql,
  { workspaceId, recipients, userId }: Inbox,
  at: Date,
): Promise<number> {
  return (await sql.run(markNotificationsReadSql, [workspaceId, recipients, userId, null, at])).length
}

export function toNotificationView(row: StoredNotification): z.infer<typeof notificationView> {
  return {
    notification_id: encodeId('connector_invocation', row.connector_invocation_id),
    command_id: encodeId('command', row.command_id),
    subject: row.subject,
    text: row.text,
    created_at: formatInstant(row.created_at),
    read_at: row.read_at === null ? null : formatInstant(row.read_at),
  }
}
