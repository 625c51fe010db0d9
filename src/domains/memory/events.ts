/** The closed list of what this room records. Events name rows by id; content and subject never stand in one. */
import type { NewId } from '#kernel/clock'
import { appendEvents, domainEventLog, type EventDraft, type Sql } from '#store'

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
type MemoryEventType = keyof typeof memoryEventTypes

export const memoryLog = domainEventLog(memoryEventTypes)

/** Who does something, as what, under which trace, and when. */
export type Act = {
  readonly actor: string
  readonly actorKind: 'system' | 'user' | 'operator' | 'approver' | 'worker'
  readonly traceId: string
  readonly at: Date
}

export type MemoryFact = {
  readonly type: MemoryEventType
  readonly workspaceId: string
  /** What it is about: `memory`, `memory_candidate`, `memory_consent` … */
  readonly target: string
  readonly targetId: string
  readonly payload?: Readonly<Record<string, unknown>>
  readonly links?: Readonly<Record<string, unknown>>
}

/** In the transaction of the fact itself. */
export async function tellMemory(sql: Sql, newId: NewId, act: Act, facts: readonly MemoryFact[]): Promise<void> {
  await appendEvents(
    sql,
    memoryLog,
    facts.map(
      (fact): EventDraft<MemoryEventType> => ({
        ...act,
        eventId: newId(),
        type: fact.type,
        payload: { ...fact.payload, target_type: fact.target, target_id: fact.targetId },
        links: { workspace_id: fact.workspaceId, ...fact.links },
      }),
    ),
  )
}
