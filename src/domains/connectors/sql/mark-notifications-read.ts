/** Notes that somebody has read a message, or all that were sent to them; the first reading stands. */
import { statement } from '#store'
import { SENT_TO } from './list-notifications.ts'

/** $1 workspace, $2 names of the recipient, $3 the person, $4 one message or null for all, $5 now. Gives back what was new. */
export const markNotificationsReadSql = statement<{ readonly connector_invocation_id: string }>(
  'connectors_mark_notifications_read',
  `insert into concord.notification_reads (connector_invocation_id, user_id, read_at, workspace_id)
   select t.connector_invocation_id, $3::uuid, $5, t.workspace_id
     from concord.connector_invocations t
    where ${SENT_TO}
      and ($4::uuid is null or t.connector_invocation_id = $4::uuid)
   on conflict do nothing
   returning connector_invocation_id`,
)
