/** What was sent to somebody in the app, newest first. */
import { z } from 'zod'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { Sql } from '#store'
import { listNotificationsSql, type StoredNotification } from '../sql/list-notifications.ts'

export const notificationView = z
  .object({
    notification_id: z
      .string()
      .meta({ example: 'inv_0197f3b2c4d57a8e9b0c1d2e3f405171', description: 'The call that sent it.' }),
    command_id: z.string(),
    subject: z.string(),
    text: z.string(),
    created_at: z.string().meta({ format: 'date-time' }),
  })
  .meta({ id: 'Notification', description: 'A message in the app.' })

export function listNotifications(
  sql: Sql,
  asked: { readonly workspaceId: string; readonly recipients: readonly string[]; readonly limit: number },
): Promise<readonly StoredNotification[]> {
  return sql.run(listNotificationsSql, [asked.workspaceId, asked.recipients, asked.limit])
}

export function toNotificationView(row: StoredNotification): z.infer<typeof notificationView> {
  return {
    notification_id: encodeId('connector_invocation', row.connector_invocation_id),
    command_id: encodeId('command', row.command_id),
    subject: row.subject,
    text: row.text,
    created_at: formatInstant(row.created_at),
  }
}
