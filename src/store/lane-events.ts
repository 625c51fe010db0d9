/** A lane for events that stand alone: audit rows of rejected requests, agent steps. State changes bring their own. */
import type { Refusal } from '#kernel/refusal'
import type { Db } from './db.ts'
import { appendEvents, checkEvent, type EventDraft, type EventLog } from './events.ts'
import { openLane } from './lane.ts'
import type { TransitionLaneOptions } from './lane-transitions.ts'

export type EventLane<E extends string> = {
  /** Settles after the commit of this event. */
  append(event: EventDraft<E>): Promise<{ readonly ok: true } | Refusal>
  readonly depth: number
  close(): Promise<void>
}

export function openEventLane<E extends string>(
  db: Db,
  log: EventLog<E>,
  { onFlushed, ...options }: TransitionLaneOptions = {},
): EventLane<E> {
  const hasIds = log.id !== undefined
  const lane = openLane<EventDraft<E>, { readonly ok: true }>(db, {
    ...options,
    name: log.table,
    async flush(sql, items) {
      await appendEvents(
        sql,
        log,
        items.map(({ item }) => item),
        { once: items.some(({ retried }) => retried) },
      )
      return items.map(() => ({ ok: true }))
    },
    retrySafe: hasIds,
    ...(onFlushed ? { onFlushed: () => onFlushed() } : {}),
  })
  return {
    get depth() {
      return lane.depth
    },
    async append(event) {
      checkEvent(log, event)
      return lane.submit(event)
    },
    close: () => lane.close(),
  }
}
