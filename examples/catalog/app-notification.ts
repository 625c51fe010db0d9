/**
 * The notification that ends a task with `notification_required`. It calls nobody: the row of the effect, with its recipient and
 * text, is the whole notification, so a repetition changes nothing. It is not in `concord notifications`, the inbox of the
 * notification connector (`send_app_notification`), because the examples have no such connector.
 */
import { type Definition, defineEffect } from '#domains/commands'
import { textOf } from './payload-text.ts'

export const appNotification: Definition = defineEffect({
  effect_type: 'notification.app',
  class: 'read',
  bounded: true,
  do: async ({ payload }) => ({
    recipient: textOf(payload, 'recipient'),
    text: `${textOf(payload, 'task_name')} is done.`,
  }),
})
