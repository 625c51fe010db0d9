/**
 * The notification that ends a task with `notification_required`. Nobody is called: the row of the effect, with its recipient
 * and its text, is the notification, and whoever shows notifications reads it there. So repeating it changes nothing.
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
