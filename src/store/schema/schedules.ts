/** `command_schedules`, as migration 0010 makes it. */
import { boolean, integer, jsonb, pgSchema, text, uuid } from 'drizzle-orm/pg-core'
import { at, type JsonObject } from './columns.ts'

export const scheduleOrigins = ['catalog', 'person'] as const
export type ScheduleOrigin = (typeof scheduleOrigins)[number]

const schedules = pgSchema('schedules')

export const commandSchedules = schedules.table('command_schedules', {
  scheduleId: uuid('schedule_id').primaryKey(),
  workspaceId: uuid('workspace_id').notNull(),
  name: text('name').notNull(),
  origin: text('origin').$type<ScheduleOrigin>().notNull(),
  commandType: text('command_type').notNull(),
  payload: jsonb('payload').$type<JsonObject>().notNull().default({}),
  cron: text('cron').notNull(),
  timeZone: text('time_zone').notNull().default('UTC'),
  queue: text('queue').notNull(),
  overlap: text('overlap').notNull(),
  misfire: text('misfire').notNull(),
  jitterMs: integer('jitter_ms').notNull().default(0),
  enabled: boolean('enabled').notNull().default(true),
  createdBy: text('created_by').notNull(),
  createdRole: text('created_role').notNull(),
  createdAt: at('created_at').notNull().defaultNow(),
  updatedAt: at('updated_at').notNull().defaultNow(),
  removedAt: at('removed_at'),
  lastDueAt: at('last_due_at'),
  lastCommandId: uuid('last_command_id'),
  lastRefusal: text('last_refusal'),
})
