/** Streams the live events of a workspace. A client can resume a stream after its last event. */
import { z } from '@hono/zod-openapi'
import { idField, parsedField, textView } from '#contract'
import { encodeId, type IdKind, withShownTarget } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import {
  type FeedEvent,
  type FeedHub,
  feedCursorForm,
  feedStart,
  findFeedEnd,
  followFeed,
  parseCursor,
  readFeed,
} from '#store'
import type { ApiDeps } from './api-deps.ts'
import { rightOf } from './caller.ts'
import { encodeFrame, type StreamedEvent, type StreamPlace, type Streams, streamEvents } from './event-stream.ts'
import type { ApiContext } from './guards.ts'
import { resource, routes } from './resource.ts'

const STREAM_HEADERS = { 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' }
const READ_ON = 'GET /events?archived=skip continues with the remaining events; the others are in the archive files.'
const TYPES_MAX = 50
const ONE_TYPE = '[a-z][a-z0-9_.]{0,99}'
const TYPE = new RegExp(`^${ONE_TYPE}$`)

function parseTypes(text: string): Decision<string[]> {
  const types = text.split(',')
  const wrong = types.find((type) => !TYPE.test(type))
  if (wrong === undefined && types.length <= TYPES_MAX) return accept(types)
  return refuse('api.field.value', `${quote(wrong ?? text)} is not an event type.`, {
    hint: `Send up to ${TYPES_MAX} event types with commas between them.`,
  })
}

/** The id of an event, for documents. */
const afterForm = { pattern: `^(?:start|${feedCursorForm.source.slice(1, -1)})$` }

function parseAfter(text: string | undefined): Decision<string | undefined> {
  if (text === undefined) return accept(undefined)
  if (text === 'start') return accept(feedStart)
  const place = parseCursor(text)
  return place.ok ? accept(text) : place
}

const idOrNull = (kind: IdKind, id: string | null) => (id === null ? null : encodeId(kind, id))

/** Made once for all streams of the workspace. */
export function toStreamedEvent(row: FeedEvent): StreamedEvent & { readonly bytes: number } {
  const event = {
    cursor: row.cursor,
    type: row.event_type,
    data: {
      event_id: encodeId('event', row.event_id),
      event_type: row.event_type,
      purpose: row.purpose,
      workspace_id: encodeId('workspace', row.workspace_id),
      command_id: idOrNull('command', row.command_id),
      agent_run_id: idOrNull('agent_run', row.agent_run_id),
      swarm_run_id: idOrNull('swarm_run', row.swarm_run_id),
      actor: row.actor,
      trace_id: row.trace_id,
      created_at: formatInstant(row.created_at),
      payload: withShownTarget(row.payload),
    },
  }
  return Object.assign(event, { bytes: encodeFrame(event).length })
}

const eventView = z
  .object({
    id: textView('1042.17', 'Continue after it with `Last-Event-ID`.'),
    event: textView('command_created', 'The event type.'),
    data: textView('{"event_id":"evt_…"}', 'The event as JSON.'),
  })
  .partial()
  .meta({ id: 'StreamedEvent', description: 'One event of the stream.' })

type Api = Pick<ApiDeps, 'callers' | 'db' | 'feed' | 'log' | 'closing'> & {
  readonly heartbeatMs: number
  readonly streams: Streams
  readonly hub: FeedHub<StreamedEvent>
}

type Asked = {
  readonly workspaceId: string
  readonly start: string
  readonly types: readonly string[] | undefined
  /** The public id. */
  readonly commandId: string | undefined
  readonly untilNow: boolean
  readonly skipArchived: boolean
}

function streamOf(deps: Api, c: ApiContext, place: StreamPlace, asked: Asked): ReadableStream<Uint8Array> {
  const { start, types, commandId, untilNow, ...followed } = asked
  const isWanted = ({ type, data }: StreamedEvent) =>
    (types === undefined || types.includes(type)) && (commandId === undefined || data['command_id'] === commandId)
  async function* readAll(signal: AbortSignal) {
    const events = followFeed(deps.db, { ...deps.feed, ...followed, after: start, untilNow, signal })
    for await (const event of events) yield toStreamedEvent(event)
  }
  async function* follow(ended: AbortSignal) {
    const signal = AbortSignal.any([ended, c.req.raw.signal, ...(deps.closing ? [deps.closing] : [])])
    const events = untilNow ? readAll(signal) : deps.hub.follow({ ...followed, after: start, signal })
    for await (const event of events) if (isWanted(event)) yield event
  }
  return streamEvents(follow, {
    start,
    heartbeatMs: deps.heartbeatMs,
    place,
    onError: (error) => deps.log.warn({ ...c.get('ids'), err: error }, 'event stream ended early'),
  })
}

export const eventRoutes = routes({
  followEvents: resource<Api>('events').get('/events', {
    summary: 'Follow the events of the workspace as server-sent events',
    description:
      'Each event has an `id`: send the last one you saw as `Last-Event-ID`, or as `after`, to continue after it without a gap. ' +
      'Without either, the stream starts with new events. If events after the `id` have been archived, the answer is ' +
      'the problem `cursor_archived`; `archived=skip` continues with the remaining ones.',
    role: 'reader',
    headers: z.object({
      'last-event-id': z
        .string()
        .optional()
        .meta({ ...afterForm, description: 'Continue after this event; takes precedence over `after`.' }),
    }),
    query: {
      after: z
        .string()
        .optional()
        .meta({
          ...afterForm,
          example: 'start',
          description: 'Continue after this event; `start` begins with the first event of the workspace.',
        }),
      until: z
        .literal('now')
        .optional()
        .meta({ example: 'now', description: 'Ends the stream when all existing events have been sent.' }),
      archived: z
        .literal('skip')
        .optional()
        .meta({ example: 'skip', description: 'Continues although events after the `id` are archived.' }),
      type: parsedField(parseTypes)
        .optional()
        .meta({
          type: 'string',
          pattern: `^${ONE_TYPE}(?:,${ONE_TYPE}){0,${TYPES_MAX - 1}}$`,
          example: 'command_created,approval_requested',
          description: 'Only these event types.',
        }),
      command_id: idField('command').optional().meta({ description: 'Only events of this command.' }),
    },
    answers: { 200: ['The stream.'] },
    content: { 'text/event-stream': { schema: eventView } },
    problems: [400, 404, 410],
    async handle({ deps, c, principal, workspaceId, query }) {
      const { after, archived } = query
      const cursor = parseAfter(c.req.header('last-event-id') ?? after)
      if (!cursor.ok) return cursor
      const skipArchived = archived === 'skip'
      const opened = deps.streams.open(principal, rightOf(deps, c, workspaceId))
      if (!opened.ok) return opened
      const place = opened.value
      let isStreaming = false
      try {
        if (cursor.value !== undefined && !skipArchived) {
          // Refuses when events after the cursor were archived, because the stream would omit them.
          const checked = await readFeed(deps.db, { workspaceId, after: cursor.value, limit: 1 })
          if (!checked.ok) return { ...checked, hint: READ_ON }
        }
        // A HEAD has no body, so a stream would never be read and closed.
        if (c.req.method === 'HEAD') return c.body(null, 200, STREAM_HEADERS)
        const start = cursor.value ?? (await findFeedEnd(deps.db))
        await place.check()
        isStreaming = true
        const commandId = query.command_id === undefined ? undefined : encodeId('command', query.command_id)
        const asked = {
          workspaceId,
          start,
          types: query.type,
          commandId,
          untilNow: query.until === 'now',
          skipArchived,
        }
        return c.body(streamOf(deps, c, place, asked), 200, STREAM_HEADERS)
      } finally {
        if (!isStreaming) place.close()
      }
    },
  }),
})
