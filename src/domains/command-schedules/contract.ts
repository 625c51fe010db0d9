/** The API shapes of this room: the bodies and the views of a schedule. */
import { z } from 'zod'
import { showActor } from '#domains/approvals'
import { type Catalog, findScheduledTask, redactPayload } from '#domains/commands'
import { cronField, idView, nameField, textField, timeView, timeZoneField } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { JsonObject } from '#kernel/json-value'
import { misfirePolicies, overlapPolicies, SCHEDULE_JITTER_MAX_MS } from '#kernel/schedule'
import { nextDueTimes } from './decide-schedule.ts'
import type { CommandScheduleDetail } from './command-schedule.ts'
import { scheduleOrigins, type StoredCommandSchedule } from './command-schedule.ts'

const NAME_CHARS_MAX = 100
/** The number that fits on a screen; `?occurrences` requests more. */
export const OCCURRENCES_DEFAULT = 5

// Any JSON object: the body guard has checked every value, and the command type checks the shape.
const payload = z.record(z.string(), z.unknown()).transform((value) => value as JsonObject)

const terms = {
  payload: payload.meta({ example: { report_type: 'monthly_revenue', date_range: '2026-05' } }),
  cron: cronField(),
  time_zone: timeZoneField(),
  queue: textField(200).meta({
    example: 'scheduled_maintenance',
    description: 'The queue in which its commands wait.',
  }),
  overlap: z
    .enum(overlapPolicies)
    .meta({ example: 'skip', description: 'What happens to a due time while the previous command is still open.' }),
  misfire: z
    .enum(misfirePolicies)
    .meta({ example: 'last', description: 'What happens to due times that passed while no worker ran.' }),
  jitter_ms: z
    .int()
    .min(0)
    .max(SCHEDULE_JITTER_MAX_MS)
    .meta({ example: 0, description: 'Delays every start by a fixed part of this time.' }),
  enabled: z.boolean().meta({ example: true }),
}

const optional = {
  payload: terms.payload.optional(),
  time_zone: terms.time_zone.optional(),
  queue: terms.queue.optional(),
  overlap: terms.overlap.optional(),
  misfire: terms.misfire.optional(),
  jitter_ms: terms.jitter_ms.optional(),
  enabled: terms.enabled.optional(),
}

export const createCommandScheduleBody = z
  .strictObject({
    name: nameField('monthly report', NAME_CHARS_MAX),
    command_type: textField(200, { charsMin: 1 }).meta({
      example: 'generate_report',
      description: 'Or the name of its task; GET /task-types lists them.',
    }),
    cron: terms.cron,
    ...optional,
  })
  .meta({ id: 'CreateSchedule', description: 'A command that is submitted on a schedule.' })

export const changeCommandScheduleBody = z
  .strictObject({ cron: terms.cron.optional(), ...optional })
  .meta({ id: 'ChangeSchedule', description: 'The fields to change. Omitted fields stay unchanged.' })

export const commandScheduleView = z
  .object({
    schedule_id: idView('command_schedule'),
    name: z.string().meta({ example: 'monthly report' }),
    origin: z
      .enum(scheduleOrigins)
      .meta({ example: 'person', description: 'The catalog of the project, or a person.' }),
    command_type: z.string().meta({ example: 'generate_report' }),
    ...terms,
    payload: z.record(z.string(), z.unknown()).meta({ description: 'Without what may not be shown.' }),
    created_by: idView('user', 'Its firings act for them.'),
    created_at: timeView('When it was made.'),
    updated_at: timeView('When it was changed last.'),
    next_occurrences: z
      .array(timeView('A due time.'))
      .meta({ description: 'The next due times; none while it is off.' }),
    last_firing: z
      .object({
        due_at: timeView('The due time.'),
        command_id: idView('command').nullable(),
        refusal: z.string().nullable().meta({ description: 'The code with which the request was turned away.' }),
      })
      .nullable(),
  })
  .meta({ id: 'Schedule', description: 'A command that is asked for by the clock.' })
export type CommandScheduleView = z.infer<typeof commandScheduleView>

export const commandScheduleDetailView = commandScheduleView
  .extend({
    fired_count: z.int().meta({ example: 12, description: 'Due times that were fired since it was switched on.' }),
    missed_count: z.int().meta({ example: 0, description: 'Late, or left out because of an overlap.' }),
    open_count: z.int().meta({ example: 0, description: 'Firings whose command is not over.' }),
  })
  .meta({ id: 'ScheduleDetail' })

export type ViewOptions = { readonly now: Date; readonly occurrences?: number | undefined }

export function toCommandScheduleView(
  schedule: StoredCommandSchedule,
  catalog: Catalog,
  { now, occurrences = OCCURRENCES_DEFAULT }: ViewOptions,
): CommandScheduleView {
  const { command_type, last_due_at, last_command_id } = schedule
  const fields = findScheduledTask(catalog, command_type)?.type.fields ?? {}
  return {
    schedule_id: encodeId('command_schedule', schedule.schedule_id),
    name: schedule.name,
    origin: schedule.origin,
    command_type,
    payload: redactPayload(schedule.payload, fields, 'pii'),
    cron: schedule.cron,
    time_zone: schedule.time_zone,
    queue: schedule.queue,
    overlap: schedule.overlap,
    misfire: schedule.misfire,
    jitter_ms: schedule.jitter_ms,
    enabled: schedule.enabled,
    created_by: showActor(schedule.created_by),
    created_at: formatInstant(schedule.created_at),
    updated_at: formatInstant(schedule.updated_at),
    next_occurrences: schedule.enabled ? nextDueTimes(schedule, now, occurrences).map(formatInstant) : [],
    last_firing: last_due_at && {
      due_at: formatInstant(last_due_at),
      command_id: last_command_id && encodeId('command', last_command_id),
      refusal: schedule.last_refusal,
    },
  }
}

export function toCommandScheduleDetailView(
  { schedule, known }: CommandScheduleDetail,
  catalog: Catalog,
  options: ViewOptions,
) {
  return {
    ...toCommandScheduleView(schedule, catalog, options),
    fired_count: known?.firedCount ?? 0,
    missed_count: known?.missedCount ?? 0,
    open_count: known?.openCount ?? 0,
  }
}
