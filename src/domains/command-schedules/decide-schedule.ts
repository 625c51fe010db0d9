/** The pure decisions about a schedule: its validity, its due times, and its name in the runtime. */
import {
  checkSecrets,
  type Catalog,
  findScheduledTask,
  hideUndeclared,
  restorePayload,
  validatePayload,
} from '#domains/commands'
import type { Principal } from '#domains/identity'
import { parseCron, parseTimeZone } from '#kernel/cron'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { nextDueTime, type RuntimeSchedule } from '#runtime'
import type { StoredCommandSchedule } from './command-schedule.ts'
import { FIRING_KIND } from './deps.ts'

export type ScheduleTerms = Pick<StoredCommandSchedule, 'command_type' | 'payload' | 'cron' | 'time_zone' | 'queue'>

export function decideTerms(catalog: Catalog, terms: ScheduleTerms, now: Date): Decision<void> {
  const content = decideContent(catalog, terms)
  if (!content.ok) return content
  const times = decideTimes(terms, now)
  if (!times.ok) return times
  if (catalog.queues.includes(terms.queue)) return accept(undefined)
  return refuse('schedules.queue.unknown', `There is no queue ${quote(terms.queue)}.`, {
    path: 'queue',
    hint: `One of ${catalog.queues.join(', ')}.`,
    ...didYouMean(terms.queue, catalog.queues),
  })
}

function decideContent(catalog: Catalog, { command_type, payload }: ScheduleTerms): Decision<void> {
  const task = findScheduledTask(catalog, command_type)
  if (!task)
    return refuse('schedules.command_type.unknown', `There is no command type ${quote(command_type)}.`, {
      path: 'command_type',
      hint: 'GET /task-types lists the tasks with their command types.',
      ...didYouMean(command_type, catalog.taskOfType.keys()),
    })
  if (!task.spec.ingress_types.includes('scheduled_trigger'))
    return refuse('schedules.command_type.not_scheduled', `${quote(command_type)} does not allow schedules.`, {
      path: 'command_type',
      hint: 'Its task must name scheduled_trigger among its ingress_types.',
      facts: { ingress_types: task.spec.ingress_types },
    })
  const secrets = checkSecrets(payload, task.type.fields)
  if (!secrets.ok) return { ...secrets, path: `payload.${secrets.path ?? ''}` }
  const verdict = validatePayload(task.type, task.spec, payload)
  switch (verdict.t) {
    case 'fits':
      return hideUndeclared(task.type.payload, payload) === payload ? accept(undefined) : refuseUndeclared
    case 'missing':
      return refuse('schedules.payload.invalid', `The payload lacks ${verdict.fields.join(', ')}.`, {
        path: `payload.${verdict.fields[0] ?? ''}`,
        hint: 'Provide the whole input: a firing cannot ask for it.',
        facts: { missing: verdict.fields },
      })
    case 'malformed':
      return refuse('schedules.payload.invalid', `The payload is invalid: ${verdict.errors.join('; ')}.`, {
        path: 'payload',
        facts: { errors: verdict.errors },
      })
  }
}

/** A hidden value that is sent as the view shows it is the stored one. Without one it is refused: the name of a class is never a value. */
export function restoreHidden<T extends Pick<ScheduleTerms, 'command_type' | 'payload'>>(
  catalog: Catalog,
  terms: T,
  stored: JsonObject,
): Decision<T> {
  const fields = findScheduledTask(catalog, terms.command_type)?.type.fields ?? {}
  const { payload, hidden } = restorePayload(terms.payload, stored, fields, 'pii')
  if (hidden.length === 0) return accept({ ...terms, payload })
  return refuse(
    'schedules.payload.invalid',
    'The payload has the name of a hidden value, and no such value is stored.',
    {
      path: `payload.${hidden[0] ?? ''}`,
      hint: 'Send the value itself.',
    },
  )
}

const refuseUndeclared = refuse(
  'schedules.payload.invalid',
  'The payload has fields that its contract does not declare.',
  {
    path: 'payload',
    hint: 'Leave them out.',
  },
)

function decideTimes({ cron, time_zone }: ScheduleTerms, now: Date): Decision<void> {
  const fields = parseCron(cron)
  if (!fields.ok) return { ...fields, path: 'cron' }
  const zone = parseTimeZone(time_zone)
  if (!zone.ok) return { ...zone, path: 'time_zone' }
  if (nextDueTime(fields.value, zone.value, now) !== undefined) return accept(undefined)
  return refuse('cron_never', `${quote(cron)} is not due within five years.`, { path: 'cron' })
}

/** Returns the next due times, earliest first; none for an invalid expression. */
export function nextDueTimes(
  { cron, time_zone }: Pick<ScheduleTerms, 'cron' | 'time_zone'>,
  after: Date,
  count: number,
): readonly Date[] {
  const fields = parseCron(cron)
  if (!fields.ok) return []
  const found: Date[] = []
  for (let due = nextDueTime(fields.value, time_zone, after); due && found.length < count; ) {
    found.push(due)
    due = nextDueTime(fields.value, time_zone, due)
  }
  return found
}

/** Its creator and administrators may change a schedule; one of the catalog only administrators. */
export function decideOwner({ created_by }: StoredCommandSchedule, { role, userId }: Principal): Decision<void> {
  if (role === 'admin' || created_by === `user:${userId}`) return accept(undefined)
  return refuse('schedules.schedule.not_yours', 'Only its creator or an administrator may change this schedule.', {
    hint: 'Ask one of them, or create your own schedule.',
  })
}

export function runtimeNameOf({ schedule_id }: Pick<StoredCommandSchedule, 'schedule_id'>): string {
  return encodeId('command_schedule', schedule_id)
}

export function runtimeSpecOf(schedule: StoredCommandSchedule): RuntimeSchedule {
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

/** The same for every process, so that all agree on the start of a firing; derived from the random end of the id. */
function jitterOf({ schedule_id, jitter_ms }: Pick<StoredCommandSchedule, 'schedule_id' | 'jitter_ms'>): number {
  return Number.parseInt(schedule_id.slice(-8), 16) % (jitter_ms + 1)
}

/** The name of a firing is `schedule:{runtime name}:{due time}`. */
export function parseFiring(id: string): { readonly scheduleId: string; readonly dueAt: Date } | undefined {
  const [, name = '', due = ''] = /^schedule:([^:]+):(.+)$/.exec(id) ?? []
  const scheduleId = decodeId('command_schedule', name)
  const dueMs = Date.parse(due)
  return scheduleId.ok && Number.isFinite(dueMs) ? { scheduleId: scheduleId.value, dueAt: new Date(dueMs) } : undefined
}
