/** The inbox of a person in the app: the messages to them, the newest first, and which they have read. Messages about people are in every workspace. */
import { z } from 'zod'
import { idView, orNull } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Paged, pageText, type Sql, statement } from '#store'

export type StoredNotification = {
  readonly connector_invocation_id: string
  readonly command_id: string | null
  readonly subject: string
  readonly text: string
  readonly created_at: Date
  readonly read_at: Date | null
}

/** $1 workspace, $2 names of the recipient. The first row of a key is the message; a repeat is the same message. */
const SENT_TO = `t.workspace_id = $1::uuid and t.operation = 'send_app_notification' and t.status = 'succeeded'
      and t.request_payload ->> 'recipient' = any ($2::text[])
      and not exists (
        select from concord.connector_invocations e
         where e.workspace_id = t.workspace_id and e.connector_name = t.connector_name and e.operation = t.operation
           and e.status = 'succeeded' and e.idempotency_key = t.idempotency_key
           and e.connector_invocation_id < t.connector_invocation_id)`

/** $3 the person, $4 limit, $5 whether only unread messages, $6 one message or null, $7 only messages before this one, or null. */
const listNotificationsSql = statement<StoredNotification & Paged>(
  'connectors_list_notifications',
  pageText(`select n.* from (
     select t.connector_invocation_id, t.command_id, t.request_payload ->> 'subject' as subject,
            t.request_payload ->> 'text' as text, t.created_at, r.read_at
       from concord.connector_invocations t
       left join concord.notification_reads r
         on r.workspace_id = t.workspace_id and r.connector_invocation_id = t.connector_invocation_id and r.user_id = $3::uuid
      where ${SENT_TO}
     union all
     select m.id, null, m.subject, m.text, m.created_at, m.read_at from identity.messages m where m.user_id = $3::uuid) n
    where (not $5::boolean or n.read_at is null)
      and ($6::uuid is null or n.connector_invocation_id = $6::uuid)
      and ($7::uuid is null or n.connector_invocation_id < $7::uuid)
    order by n.connector_invocation_id desc
    limit $4`),
)

/** $1 workspace, $2 names of the recipient, $3 the person, $4 one message or null for all, $5 now. Returns the messages that were unread. */
const markNotificationsReadSql = statement<{ readonly connector_invocation_id: string }>(
  'connectors_mark_notifications_read',
  `with told as (
     update identity.messages m set read_at = $5
      where m.user_id = $3::uuid and m.read_at is null and ($4::uuid is null or m.id = $4::uuid)
     returning m.id as connector_invocation_id
   ), marked as (
   insert into concord.notification_reads (connector_invocation_id, user_id, read_at, workspace_id)
   select t.connector_invocation_id, $3::uuid, $5, t.workspace_id
     from concord.connector_invocations t
    where ${SENT_TO}
      and ($4::uuid is null or t.connector_invocation_id = $4::uuid)
   on conflict do nothing
   returning connector_invocation_id)
   select connector_invocation_id from marked union all select connector_invocation_id from told`,
)

export const notificationView = z
  .object({
    notification_id: idView('connector_invocation', 'The call that sent it.'),
    command_id: z.string().nullable().meta({ description: 'The command that it is about; null: none.' }),
    subject: z.string(),
    text: z.string(),
    created_at: z.string().meta({ format: 'date-time' }),
    read_at: z.string().nullable().meta({ format: 'date-time', description: 'When you read it first; null: not yet.' }),
  })
  .meta({ id: 'Notification', description: 'A message in the app.' })

/** The owner of an inbox, with every name that a message may have as its recipient. */
export type Inbox = { readonly workspaceId: string; readonly userId: string; readonly recipients: readonly string[] }

/** `before` lists only messages that were sent before this one. */
export type InboxPage = { readonly limit: number; readonly onlyUnread?: boolean; readonly before?: string | null }

export function listNotifications(
  sql: Sql,
  inbox: Inbox,
  { limit, onlyUnread = false, before = null }: InboxPage,
): Promise<readonly (StoredNotification & Paged)[]> {
  const { workspaceId, recipients, userId } = inbox
  return sql.run(listNotificationsSql, [workspaceId, recipients, userId, limit, onlyUnread, null, before])
}

export type NewNotification = {
  readonly id: string
  readonly workspaceId: string
  /** The command that the message is about. */
  readonly commandId: string
  readonly traceId: string
  /** Messages with one key are one message. */
  readonly key: string
  readonly recipient: string
  readonly subject: string
  readonly text: string
  readonly at: Date
}

/** Concord's own messages have `concord` as their connector: they are not calls, and no limit counts them. */
const insertNotification = statement<never>(
  'connectors_insert_notification',
  `insert into concord.connector_invocations (connector_invocation_id, workspace_id, command_id, connector_name, operation,
     side_effect, idempotency_key, status, request_payload, trace_id, attempt, created_at, completed_at)
   values ($1, $2, $3, 'concord', 'send_app_notification', true, $4, 'succeeded', $5::jsonb, $6, 1, $7, $7)`,
)

/** Posts a message of Concord itself, which is not an effect. */
export async function postNotification(sql: Sql, { id, key, at, ...note }: NewNotification): Promise<void> {
  const { workspaceId, commandId, traceId, recipient, subject, text } = note
  await sql.run(insertNotification, [id, workspaceId, commandId, key, { recipient, subject, text }, traceId, at])
}

/** Keeps the time of the first read. */
export async function readNotification(
  sql: Sql,
  { workspaceId, recipients, userId }: Inbox,
  notificationId: string,
  at: Date,
): Promise<Decision<StoredNotification>> {
  await sql.run(markNotificationsReadSql, [workspaceId, recipients, userId, notificationId, at])
  const [read] = await sql.run(listNotificationsSql, [workspaceId, recipients, userId, 1, false, notificationId, null])
  return read
    ? accept(read)
    : refuse('connectors.notification.not_found', 'There is no such message to you in this workspace.')
}

/** Returns how many were unread. */
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
    command_id: orNull(row.command_id, (id) => encodeId('command', id)),
    subject: row.subject,
    text: row.text,
    created_at: formatInstant(row.created_at),
    read_at: row.read_at === null ? null : formatInstant(row.read_at),
  }
}
