/** The closed list of the events of this room. An event names rows by id; it never holds content or a subject. */
import { type Actor, eventBy } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { appendEvents, domainEventLog, type Sql } from '#store'

const memoryEventTypes = {
  memory_candidate_created: 'audit',
  memory_written: 'audit',
  status_changed: 'event',
  memory_read: 'audit',
  memory_consent_granted: 'audit',
  memory_consent_revoked: 'audit',
  memory_hold_placed: 'audit',
  memory_hold_released: 'audit',
  memory_forget_requested: 'audit',
  memory_erased: 'audit',
  memory_reviewed: 'audit',
  read_memory: 'agent_step',
  propose_memory: 'agent_step',
} as const

export const memoryLog = domainEventLog(memoryEventTypes)

export type MemoryEvent = {
  readonly type: keyof typeof memoryEventTypes
  readonly payload: Readonly<Record<string, unknown>>
  readonly links: Readonly<Record<string, unknown>>
}

/** For events that are not about one row of a table descriptor: reads, steps of an agent run, reviews. */
export async function appendMemoryEvent(
  sql: Sql,
  newId: NewId,
  actor: Actor,
  at: Date,
  event: MemoryEvent,
): Promise<void> {
  await appendEvents(sql, memoryLog, [{ ...event, ...eventBy(actor), eventId: newId(), at }])
}
