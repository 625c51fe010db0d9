/**
 * The schedules that every installation has, and the small contract by which a room brings the work behind one: without that
 * work its schedule is not registered, because a firing that does nothing would only look like maintenance.
 */
import { z } from 'zod'
import { errorClasses } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'
import {
  defineCommandType,
  defineFunction,
  defineSchedule,
  defineTask,
  type Definition,
  type ScheduleDefinition,
  type ScheduleSpec,
} from './catalog/definitions.ts'
import { defineEffect, type EffectCall } from './catalog/effect-definition.ts'

const queue = 'scheduled_maintenance'

export const shippedSchedules = [
  { name: 'expire_pending_approvals', command_type: 'expire_approvals', cron: '*/5 * * * *', queue },
  { name: 'sync_connector_metadata', command_type: 'sync_connector_metadata', cron: '0 * * * *', queue },
  { name: 'memory_decay_review', command_type: 'review_stale_memory', cron: '0 3 * * *', queue },
] as const satisfies readonly ScheduleSpec[]

export type MaintenanceType = (typeof shippedSchedules)[number]['command_type']

export type Maintenance = {
  readonly command_type: MaintenanceType
  readonly task_name: string
  readonly description: string
  /** Safe to repeat: after a crash it is called again. What it returns is the result of the command. */
  readonly run: (call: EffectCall) => Promise<JsonObject>
}

/** What a room brings to fill one of the shipped schedules: the whole contract of its command, around one function. */
export function defineMaintenance({ command_type, task_name, description, run }: Maintenance): readonly Definition[] {
  const effect_type = `maintenance.${command_type}`
  return [
    defineEffect({ effect_type, class: 'keyed', do: run }),
    defineFunction({ name: command_type, plan: () => [{ effect_type, payload: {} }] }),
    defineCommandType({
      name: command_type,
      description,
      payload: z.strictObject({}),
      side_effects: [effect_type],
      error_classes: errorClasses,
      cancellable_by: ['admin'],
      audit: ['command_created', 'policy_evaluated'],
    }),
    defineTask({
      name: task_name,
      description,
      command_type,
      function_name: command_type,
      ingress_types: ['scheduled_trigger'],
      async_required: true,
      policy_checks: ['permission'],
    }),
  ]
}

/** The shipped schedules whose command type somebody brought; a project that names one itself has its own way. */
export function shippedSchedulesFor(definitions: readonly Definition[]): readonly ScheduleDefinition[] {
  const types = new Set(definitions.flatMap((each) => (each.kind === 'command_type' ? [each.name] : [])))
  const named = new Set(definitions.flatMap((each) => (each.kind === 'schedule' ? [each.spec.name] : [])))
  return shippedSchedules
    .filter(({ name, command_type }) => types.has(command_type) && !named.has(name))
    .map((spec) => defineSchedule(spec))
}
