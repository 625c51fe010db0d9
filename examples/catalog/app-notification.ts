/**
 * The notification that ends a task with `notification_required`. Nobody is called: the row of the effect, with its recipient
 * and its text, is all there is of it, so repeating it changes nothing. It is not in `concord notifications`: that is the inbox of
 * what the notification connector sent (`send_app_notification`), and the examples bring no such connector.
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
