/** The closed list of the events of this room. An event names rows by id; it never holds content or a subject. */
import { type Actor, eventBy } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { appendEvents, domainEventLog, type Sql } from '#store'

const memoryEventTypes = {
  /** A memory was proposed. */
  memory_candidate_created: 'audit',
  /** A memory became active. */
  memory_written: 'audit',
  /** A memory or a candidate got another status. */
  status_changed: 'event',
  /** A person or program read memories; the event has their ids. */
  memory_read: 'audit',
  /** A subject consented. */
  memory_consent_granted: 'audit',
  /** A subject withdrew the consent. */
  memory_consent_revoked: 'audit',
  /** A hold keeps memories from erasure. */
  memory_hold_placed: 'audit',
  /** A hold on memories ended. */
  memory_hold_released: 'audit',
  /** The erasure of a subject was requested. */
  memory_forget_requested: 'audit',
  /** Memories of a subject were erased. */
  memory_erased: 'audit',
  /** The daily review expired or marked memories. */
  memory_reviewed: 'audit',
  /** A step of an agent run read memories. */
  read_memory: 'agent_step',
  /** A step of an agent run proposed a memory. */
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
