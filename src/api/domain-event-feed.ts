/** Adapts the store's event feed to the API, with public ids. */
import { encodeId, type IdKind, withShownTarget } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { accept } from '#kernel/refusal'
import {
  type Db,
  domainFeed,
  type DomainFeedRow,
  feedStart,
  findFeedEnd,
  followFeed,
  type Notices,
  parseCursor,
  readFeed,
} from '#store'
import type { EventFeed, StreamedEvent } from './event-stream.ts'

export type EventFeedOptions = {
  readonly db: Db
  /** Without notices, new events are found by polling every `pollMs`. */
  readonly notices?: Notices
  readonly channel?: string
  readonly pollMs?: number
  readonly onError?: (error: unknown) => void
}

const idOrNull = (kind: IdKind, id: string | null) => (id === null ? null : encodeId(kind, id))

function toStreamedEvent(row: DomainFeedRow & { readonly cursor: string }): StreamedEvent {
  return {
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
}

export function openEventFeed({ db, ...following }: EventFeedOptions): EventFeed {
  return {
    parseCursor(text) {
      if (text === 'start') return accept(feedStart)
      const place = parseCursor(text)
      return place.ok ? accept(text) : place
    },
    findEnd: () => findFeedEnd(db),
    check: (workspaceId, after) => readFeed(db, domainFeed, { workspaceId, after, limit: 1 }),
    async *follow({ types, ...request }) {
      for await (const row of followFeed(db, domainFeed, { ...following, ...request })) {
        if (types === undefined || types.includes(row.event_type)) yield toStreamedEvent(row)
      }
    },
  }
}
