/** The inbox in the app: what was sent to whoever asks, and that they have read it. Everybody reaches their own alone. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView } from '#contract'
import {
  type Inbox,
  listNotifications,
  notificationView,
  readAllNotifications,
  readNotification,
  toNotificationView,
} from '#domains/connectors'
import type { ApiDeps } from './api-deps.ts'
import { openPageCursors } from './page-cursor.ts'
import { readPage } from './read-page.ts'
import { type ApiContext, principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { recipientNames } from './recipient-names.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('connectors', needs('reader'))

const getNotifications = createRoute({
  ...reads('get', '/notifications', 'listNotifications', 'What was sent to you in the app, newest first'),
  request: {
    query: queryOf({
      ...pageFields,
      unread: z
        .enum(['true', 'false'])
        .optional()
        .meta({ example: 'true', description: 'Only what you have not read.' }),
    }),
  },
  responses: {
    200: jsonAnswer(pageView(notificationView, 'NotificationPage'), 'A page of messages.'),
    ...problems(400, 422),
  },
})

const postRead = createRoute({
  ...reads(
    'post',
    '/notifications/{notification_id}/read',
    'readNotification',
    'Say that you have read a message; once is enough, and the first time stands',
  ),
  request: {
    query: queryOf({}),
    params: z.object({ notification_id: idField('connector_invocation') }),
  },
  responses: { 200: jsonAnswer(notificationView, 'The message.'), ...problems(404, ...bodyProblems) },
})

const postReadAll = createRoute({
  ...reads(
    'post',
    '/notifications/read',
    'readAllNotifications',
    'Say that you have read everything that was sent to you here',
  ),
  request: { query: queryOf({}) },
  responses: {
    200: jsonAnswer(
      z.object({ marked: z.int().meta({ example: 3 }) }).meta({ id: 'NotificationsRead' }),
      'How many you had not read before.',
    ),
    ...problems(...bodyProblems),
  },
})

/** A message is sent to a name; these are the names of whoever asks. */
function inboxOf(c: ApiContext): Inbox {
  const principal = principalOf(c)
  return { workspaceId: workspaceOf(c).id, userId: principal.userId, recipients: recipientNames(principal) }
}

export function notificationRoutes({ db, now, cursorKey }: Pick<ApiDeps, 'db' | 'now' | 'cursorKey'>) {
  const cursors = openPageCursors(cursorKey)
  return newRouter()
    .openapi(getNotifications, async (c) => {
      const query = c.req.valid('query')
      const [inbox, onlyUnread] = [inboxOf(c), query.unread === 'true']
      const page = await readPage(cursors, query, {
        scope: ['listNotifications', inbox.workspaceId, inbox.userId, String(onlyUnread)],
        read: (before, limit) => listNotifications(db, inbox, { limit, onlyUnread, before }),
        view: toNotificationView,
        position: ({ connector_invocation_id }) => connector_invocation_id,
      })
      return page.ok ? c.json(page.value, 200) : refused(c, page)
    })
    .openapi(postReadAll, async (c) => c.json({ marked: await readAllNotifications(db, inboxOf(c), now()) }, 200))
    .openapi(postRead, async (c) => {
      const read = await readNotification(db, inboxOf(c), c.req.valid('param').notification_id, now())
      return read.ok ? c.json(toNotificationView(read.value), 200) : refused(c, read)
    })
}
