/**
 * The shipped schedules, and the definitions by which a room provides the work of one. A schedule without its work is not registered:
 * running it would only look like maintenance.
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
  /** Must be safe to repeat: it is called again after a crash. Its return value is the result of the command. */
  readonly run: (call: EffectCall) => Promise<JsonObject>
}

/** The definitions behind one shipped schedule: the whole contract of its command, around one function. */
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

/** The shipped schedules whose command type is defined, except those that the project defines itself. */
export function shippedSchedulesFor(definitions: readonly Definition[]): readonly ScheduleDefinition[] {
  const types = new Set(definitions.flatMap((each) => (each.kind === 'command_type' ? [each.name] : [])))
  const named = new Set(definitions.flatMap((each) => (each.kind === 'schedule' ? [each.spec.name] : [])))
  return shippedSchedules
    .filter(({ name, command_type }) => types.has(command_type) && !named.has(name))
    .map((spec) => defineSchedule(spec))
}
