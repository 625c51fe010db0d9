/** Ends a command with a notification. The row of the effect, with its recipient and text, is the notification. */
import { defineEffect } from '@concordhq/concord'
import { z } from 'zod'

export const appNotification = defineEffect('notification.app', {
  input: z.object({ recipient: z.string(), task_name: z.string() }),
  class: 'read',
  bounded: true,
  do: ({ input: { recipient, task_name } }) => Promise.resolve({ recipient, text: `${task_name} is done.` }),
})
