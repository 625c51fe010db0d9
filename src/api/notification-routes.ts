/** The in-app inbox of the caller: lists messages and marks them as read. Callers reach only their own messages. */
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
import { decodeId, encodeId, isUuid } from '#kernel/ids'
import { accept } from '#kernel/refusal'
import { cutPage } from '#store'
import type { ApiDeps } from './api-deps.ts'
import { bodyProblems } from './problem.ts'
import { type Call, resource, routes, shown } from './resource.ts'

type Api = Pick<ApiDeps, 'db' | 'now'>

const { list, post } = resource<Api>('connectors')

export const notificationRoutes = routes({
  listNotifications: list('/notifications', {
    summary: 'List your in-app messages, newest first',
    role: 'reader',
    query: {
      unread: z.enum(['true', 'false']).optional().meta({ example: 'true', description: 'Only unread messages.' }),
    },
    page: [pageView(notificationView, 'NotificationPage'), 'A page of messages.'],
    scope: ({ workspaceId, principal, query }) => [workspaceId, principal.userId, String(query.unread === 'true')],
    async read(call, from, limit) {
      const asked = { limit: limit + 1, onlyUnread: call.query.unread === 'true', before: from?.[0] ?? null }
      const rows = await listNotifications(call.deps.db, inboxOf(call), asked)
      return accept(cutPage(rows, limit, toNotificationView, ({ connector_invocation_id }) => connector_invocation_id))
    },
  }),
  readAllNotifications: post('/notifications/read', {
    summary: 'Mark all your messages as read',
    role: 'reader',
    answers: {
      200: [
        'The number of messages that were unread.',
        z.object({ marked: z.int().meta({ example: 3 }) }).meta({ id: 'NotificationsRead' }),
      ],
    },
    problems: bodyProblems,
    handle: async (call) =>
      accept({ marked: await readAllNotifications(call.deps.db, inboxOf(call), call.deps.now()) }),
  }),
  readNotification: post('/notifications/{notification_id}/read', {
    summary: 'Mark a message as read; the time of the first read is kept',
    role: 'reader',
    params: { notification_id: idField('connector_invocation', 'notification') },
    answers: { 200: ['The message.', notificationView] },
    problems: [404, ...bodyProblems],
    handle: (call) =>
      shown(
        readNotification(call.deps.db, inboxOf(call), call.params.notification_id, call.deps.now()),
        toNotificationView,
      ),
  }),
})

/** Messages are addressed to a name; these are the names of the caller. */
function inboxOf({ workspaceId, principal }: Pick<Call<Api>, 'workspaceId' | 'principal'>): Inbox {
  return { workspaceId, userId: principal.userId, recipients: recipientNames(principal) }
}

/** The names under which in-app messages reach a person: the id in both forms, the external id and the email address. */
export function recipientNames({
  userId,
  externalId,
  email,
}: Pick<Principal, 'userId' | 'externalId' | 'email'>): string[] {
  // Administrators assign names: one in the form of a user id belongs only to that user.
  const given = [externalId, ...(email === null ? [] : [email])].filter((name) => !isIdOfPerson(name))
  return [`user:${userId}`, encodeId('user', userId), ...given]
}

function isIdOfPerson(name: string): boolean {
  return decodeId('user', name).ok || (name.startsWith('user:') && isUuid(name.slice('user:'.length)))
}
