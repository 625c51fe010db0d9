/** The inbox of somebody in the app: what was sent there, newest first, once per key, and whether they have read it. */
import { statement } from '#store'

export type StoredNotification = {
  readonly connector_invocation_id: string
  readonly command_id: string
  readonly subject: string
  readonly text: string
  readonly created_at: Date
  readonly read_at: Date | null
}

/** $1 workspace, $2 names of the recipient. The first row of a key is the message; a repeat of it is the same one. */
export const SENT_TO = `t.workspace_id = $1::uuid and t.operation = 'send_app_notification' and t.status = 'succeeded'
      and t.request_payload ->> 'recipient' = any ($2::text[])
      and not exists (
        select from concord.connector_invocations e
         where e.workspace_id = t.workspace_id and e.connector_name = t.connector_name and e.operation = t.operation
           and e.status = 'succeeded' and e.idempotency_key = t.idempotency_key
           and e.connector_invocation_id < t.connector_invocation_id)`

/** $3 the person, $4 limit, $5 whether only what is not read, $6 one message or null, $7 only those sent before this one, or null. */
export const listNotificationsSql = statement<StoredNotification>(
  'connectors_list_notifications',
  `select t.connector_invocation_id, t.command_id, t.request_payload ->> 'subject' as subject,
          t.request_payload ->> 'text' as text, t.created_at, r.read_at
     from concord.connector_invocations t
     left join concord.notification_reads r
       on r.workspace_id = t.workspace_id and r.connector_invocation_id = t.connector_invocation_id and r.user_id = $3::uuid
    where ${SENT_TO}
      and (not $5::boolean or r.read_at is null)
      and ($6::uuid is null or t.connector_invocation_id = $6::uuid)
      and ($7::uuid is null or t.connector_invocation_id < $7::uuid)
    order by t.connector_invocation_id desc
    limit $4`,
)
