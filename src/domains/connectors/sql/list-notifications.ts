/** The inbox of somebody in the app: what was sent there, newest first, once per key. */
import { statement } from '#store'

export type StoredNotification = {
  readonly connector_invocation_id: string
  readonly command_id: string
  readonly subject: string
  readonly text: string
  readonly created_at: Date
}

/** $1 workspace, $2 names of the recipient, $3 limit. The first row of a key is the message; a repeat of it is the same one. */
export const listNotificationsSql = statement<StoredNotification>(
  'connectors_list_notifications',
  `select t.connector_invocation_id, t.command_id, t.request_payload ->> 'subject' as subject,
          t.request_payload ->> 'text' as text, t.created_at
     from concord.connector_invocations t
    where t.workspace_id = $1::uuid and t.operation = 'send_app_notification' and t.status = 'succeeded'
      and t.request_payload ->> 'recipient' = any ($2::text[])
      and not exists (
        select from concord.connector_invocations e
         where e.workspace_id = t.workspace_id and e.connector_name = t.connector_name and e.operation = t.operation
           and e.status = 'succeeded' and e.idempotency_key = t.idempotency_key
           and e.connector_invocation_id < t.connector_invocation_id)
    order by t.connector_invocation_id desc
    limit $3`,
)
