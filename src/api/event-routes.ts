/** The live events of a workspace as a stream that can be resumed where it broke off. */
import { z } from '@hono/zod-openapi'
import { parsedField } from '#contract'
import { resolveWorkspace } from '#domains/identity'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import { bearerOf } from './caller.ts'
import { type StreamCount, streamEvents } from './event-stream.ts'
import { resource, routes } from './resource.ts'

const STREAM_HEADERS = { 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' }
const READ_ON = 'GET /events?archived=skip continues with the remaining events; the others are in the files of the archive.'
const TYPES_MAX = 50
const TYPE = /^[a-z][a-z0-9_.]{0,99}$/

function parseTypes(text: string): Decision<string[]> {
  const types = text.split(',')
  const wrong = types.find((type) => !TYPE.test(type))
  if (wrong === undefined && types.length <= TYPES_MAX) return accept(types)
  return refuse('api.field.value', `${quote(wrong ?? text)} is not an event type`, {
    hint: `Send up to ${TYPES_MAX} event types with commas between them.`,
  })
}

type Api = Pick<ApiDeps, 'authenticate' | 'db' | 'feed' | 'log' | 'closing'> & {
  readonly heartbeatMs: number
  readonly streams: StreamCount
}

export const eventRoutes = routes({
  followEvents: resource<Api>('events').get('/events', {
    summary: 'Follow what happens in the workspace, as server-sent events',
    description:
      'Each event has an `id`: send the last one you saw as `Last-Event-ID`, or as `after`, to go on behind it without a gap. ' +
      'Without either the stream starts with what happens from now on. Where events behind the `id` were archived meanwhile, the answer is ' +
      'the problem `cursor_archived`; `archived=skip` goes on with what is left.',
    role: 'reader',
    headers: z.object({
      'last-event-id': z.string().optional().meta({ description: 'Go on behind this event; counts before `after`.' }),
    }),
    query: {
      after: z.string().optional().meta({
        example: 'start',
        description: 'Go on behind this event; `start` begins with the first of the workspace.',
      }),
      until: z
        .literal('now')
        .optional()
        .meta({ example: 'now', description: 'Ends the stream when everything that happened so far was sent.' }),
      archived: z
        .literal('skip')
        .optional()
        .meta({ example: 'skip', description: 'Goes on although events behind the `id` lie in the archive.' }),
      type: parsedField(parseTypes).optional().meta({
        type: 'string',
        example: 'command_created,approval_requested',
        description: 'Only these event types.',
      }),
    },
    answers: { 200: ['The stream.'] },
    content: { 'text/event-stream': { schema: z.string() } },
    problems: [400, 404, 410],
    async handle({ deps, c, principal, workspaceId, query }) {
      const { after, archived, type, until } = query
      const asked = c.req.header('last-event-id') ?? after
      const cursor = asked === undefined ? accept(undefined) : deps.feed.parseCursor(asked)
      if (!cursor.ok) return cursor
      const skipArchived = archived === 'skip'
      if (cursor.value !== undefined && !skipArchived) {
        const checked = await deps.feed.check(workspaceId, cursor.value)
        if (!checked.ok) return { ...checked, hint: READ_ON }
      }
      // A HEAD has no body, so no stream would ever be read to its end and closed.
      if (c.req.method === 'HEAD') return c.body(null, 200, STREAM_HEADERS)
      const start = cursor.value ?? (await deps.feed.findEnd())
      const opened = deps.streams.open(principal)
      if (!opened.ok) return opened
      const bearer = bearerOf(c)
      async function isStillAllowed(): Promise<boolean> {
        const again = bearer.ok ? await deps.authenticate(bearer.value) : bearer
        return again.ok && (await resolveWorkspace(deps, again.value, { idHeader: workspaceId })).ok
      }
      const follow = (signal: AbortSignal) =>
        deps.feed.follow({
          workspaceId,
          after: start,
          types: type,
          untilNow: until === 'now',
          skipArchived,
          signal: AbortSignal.any([signal, c.req.raw.signal, ...(deps.closing ? [deps.closing] : [])]),
        })
      const body = streamEvents(follow, {
        start,
        heartbeatMs: deps.heartbeatMs,
        isStillAllowed,
        onError: (error) => deps.log.warn({ ...c.get('ids'), err: error }, 'an event stream ended early'),
        onClose: opened.value,
      })
      return c.body(body, 200, STREAM_HEADERS)
    },
  }),
})
