/** The closed list of what this room records, in the transaction of the fact itself; never the payload of a schedule. */
import { appendEvents, domainEventLog, eventIdOf, type Sql } from '#store'
import type { StoredCommandSchedule } from './command-schedule.ts'

const scheduleEventTypes = {
  schedule_created: 'audit',
  schedule_changed: 'audit',
  schedule_removed: 'audit',
  schedule_firing_refused: 'audit',
  /** An operator gave it, or one firing of it, another chance. */
  schedule_resumed: 'audit',
} as const
export type ScheduleEventType = keyof typeof scheduleEventTypes

const scheduleLog = domainEventLog(scheduleEventTypes)

export type ScheduleFact = {
  readonly type: ScheduleEventType
  readonly schedule: StoredCommandSchedule
  readonly actor: string
  readonly actorKind: string
  readonly traceId: string
  readonly at: Date
  readonly payload?: Readonly<Record<string, unknown>>
}

function draftOf(eventId: string, { type, schedule, actor, actorKind, traceId, at, payload }: ScheduleFact) {
  const { schedule_id, name, origin, command_type, cron, time_zone, enabled } = schedule
  return {
    eventId,
    type,
    payload: {
      target_type: 'schedule',
      target_id: schedule_id,
      name,
      origin,
      command_type,
      cron,
      time_zone,
      enabled,
      ...payload,
    },
    actor,
    actorKind,
    traceId,
    at,
    links: { workspace_id: schedule.workspace_id },
  }
}

export async function appendScheduleEvent(sql: Sql, eventId: string, fact: ScheduleFact): Promise<void> {
  await appendEvents(sql, scheduleLog, [draftOf(eventId, fact)])
}

/** However often the same due time is turned away, it is told once. */
export async function appendRefusedFiring(sql: Sql, dueAt: Date, fact: ScheduleFact): Promise<void> {
  const eventId = eventIdOf(fact.type, fact.schedule.schedule_id, dueAt.toISOString())
  await appendEvents(sql, scheduleLog, [draftOf(eventId, fact)], { once: true })
}
