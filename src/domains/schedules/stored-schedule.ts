/** A schedule as it stands in its table, and as the runtime is told about it. */
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { ScheduleSpec as RuntimeSpec } from '#runtime'
import type { RowOf } from '#store/rows'
import { FIRING_KIND } from './deps.ts'

export const scheduleOrigins = ['catalog', 'person'] as const

export type StoredSchedule = RowOf<'schedules.command_schedules', { readonly payload: JsonObject }>

export function runtimeNameOf({ schedule_id }: Pick<StoredSchedule, 'schedule_id'>): string {
  return encodeId('command_schedule', schedule_id)
}

export function runtimeSpecOf(schedule: StoredSchedule): RuntimeSpec {
  return {
    name: runtimeNameOf(schedule),
    cron: schedule.cron,
    zone: schedule.time_zone,
    overlap: schedule.overlap,
    missed: schedule.misfire,
    kind: FIRING_KIND,
    queue: schedule.queue,
    jitterMs: jitterOf(schedule),
  }
}

/** The same for every process, so that nobody contradicts another about when a firing starts; spread by the id's random end. */
function jitterOf({ schedule_id, jitter_ms }: Pick<StoredSchedule, 'schedule_id' | 'jitter_ms'>): number {
  return Number.parseInt(schedule_id.slice(-8), 16) % (jitter_ms + 1)
}

/** The name of a firing is `schedule:{runtime name}:{due time}`. */
export function parseFiring(id: string): { readonly scheduleId: string; readonly dueAt: Date } | undefined {
  const [, name = '', due = ''] = /^schedule:([^:]+):(.+)$/.exec(id) ?? []
  const scheduleId = decodeId('command_schedule', name)
  const dueMs = Date.parse(due)
  return scheduleId.ok && Number.isFinite(dueMs) ? { scheduleId: scheduleId.value, dueAt: new Date(dueMs) } : undefined
}
