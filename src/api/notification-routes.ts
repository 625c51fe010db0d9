/** The inbox in the app: what was sent to whoever asks, and that they have read it. Everybody reaches their own alone. */
import { z } from '@hono/zod-openapi'
import { idField, pageView } from '#contract'
import {
  type Inbox,
  listNotifications,
  notificationView,
  readAllNotifications,
  readNotification,
  toNotificationView,
} from '#domains/connectors'
import type { Principal } from '#domains/identity'
import { decodeId, encodeId } from '#kernel/ids'
import { accept } from '#kernel/refusal'
import { isUuid } from '#kernel/uuid'
import type { ApiDeps } from './api-deps.ts'
import { bodyProblems } from './problem.ts'
import { type Call, cutPage, resource, routes, shown } from './resource.ts'

type Api = Pick<ApiDeps, 'db' | 'now'>

const { list, post } = resource<Api>('connectors')

export const notificationRoutes = routes({
  listNotifications: list('/notifications', {
    summary: 'What was sent to you in the app, newest first',
    role: 'reader',
    query: {
      unread: z
        .enum(['true', 'false'])
        .optional()
        .meta({ example: 'true', description: 'Only what you have not read.' }),
    },
    page: [pageView(notificationView, 'NotificationPage'), 'A page of messages.'],
    problems: [400],
    scope: ({ workspaceId, principal, query }) => [workspaceId, principal.userId, String(query.unread === 'true')],
    async read(call, from, limit) {
      const asked = { limit: limit + 1, onlyUnread: call.query.unread === 'true', before: from?.[0] ?? null }
      const rows = await listNotifications(call.deps.db, inboxOf(call), asked)
      return accept(cutPage(rows, limit, toNotificationView, ({ connector_invocation_id }) => connector_invocation_id))
    },
  }),
  readAllNotifications: post('/notifications/read', {
    summary: 'Say that you have read everything that was sent to you here',
    role: 'reader',
    answers: {
      200: [
        'How many you had not read before.',
        z.object({ marked: z.int().meta({ example: 3 }) }).meta({ id: 'NotificationsRead' }),
      ],
    },
    problems: bodyProblems,
    handle: async (call) =>
      accept({ marked: await readAllNotifications(call.deps.db, inboxOf(call), call.deps.now()) }),
  }),
  readNotification: post('/notifications/{notification_id}/read', {
    summary: 'Say that you have read a message; once is enough, and the first time stands',
    role: 'reader',
    params: { notification_id: idField('connector_invocation') },
    answers: { 200: ['The message.', notificationView] },
    problems: [404, ...bodyProblems],
    handle: (call) =>
      shown(
        readNotification(call.deps.db, inboxOf(call), call.params.notification_id, call.deps.now()),
        toNotificationView,
      ),
  }),
})

/** A message is sent to a name; these are the names of whoever asks. */
function inboxOf({ workspaceId, principal }: Pick<Call<Api>, 'workspaceId' | 'principal'>): Inbox {
  return { workspaceId, userId: principal.userId, recipients: recipientNames(principal) }
}

/** The names under which messages in the app reach somebody: their id in both forms, their name, their address. */
export function recipientNames({
  userId,
  externalId,
  email,
}: Pick<Principal, 'userId' | 'externalId' | 'email'>): string[] {
  // Names are given by administrators: one in the form of an id is that person's alone, whoever else was called so.
  const given = [externalId, ...(email === null ? [] : [email])].filter((name) => !isIdOfPerson(name))
  return [`user:${userId}`, encodeId('user', userId), ...given]
}

function isIdOfPerson(name: string): boolean {
  return decodeId('user', name).ok || (name.startsWith('user:') && isUuid(name.slice('user:'.length)))
}
