/**
 * Scheduled commands: the shipped schedules with the definitions by which a room provides their work, and the submit of a due time. A
 * shipped schedule without its work is not registered: running it would only look like maintenance.
 */
import { z } from 'zod'
import type { Actor } from '#kernel/actor'
import { errorClasses } from '#kernel/error-classes'
import { scheduleKey } from '#kernel/idempotency-key'
import type { JsonObject } from '#kernel/json-value'
import { type Decision, quote, refuse } from '#kernel/refusal'
import type { Process } from '#runtime'
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
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import type { CommandDeps } from './deps.ts'
import { submitCommand, type SubmittedCommand } from './submit.ts'

const queue = 'scheduled_maintenance'

export const shippedSchedules = [
  { name: 'expire_pending_approvals', command_type: 'expire_approvals', cron: '*/5 * * * *', queue },
  { name: 'sync_connector_metadata', command_type: 'sync_connector_metadata', cron: '0 * * * *', queue },
  { name: 'repair_missions', command_type: 'repair_missions', cron: '*/10 * * * *', queue },
  { name: 'memory_decay_review', command_type: 'review_stale_memory', cron: '0 3 * * *', queue },
] as const satisfies readonly ScheduleSpec[]

export type MaintenanceType = (typeof shippedSchedules)[number]['command_type']

type Maintenance = {
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

type Firing = {
  readonly workspaceId: string
  readonly dueAt: Date
  readonly traceId: string
  readonly requestId: string
  /** Woken when the command ends or waits for people. */
  readonly follower?: Process | undefined
  /** The requester. Omitted: the schedule itself, with the rights of the installation. */
  readonly by?: Actor
}

/** The task that a schedule of this command type starts: one that allows `scheduled_trigger`, if there is one. */
export function findScheduledTask({ tasks, taskOfType }: Catalog, commandType: string): CompiledTask | undefined {
  const open = [...tasks.values()].find(
    ({ type, spec }) => type.name === commandType && spec.ingress_types.includes('scheduled_trigger'),
  )
  return open ?? taskOfType.get(commandType)
}

/** Resolves the name of a command type, or of the task that a schedule of it starts, to the command type. */
export function scheduledTypeOf(catalog: Catalog, named: string): string {
  const task = catalog.tasks.get(named)
  return task && findScheduledTask(catalog, task.type.name) === task ? task.type.name : named
}

/** Submits the command of a due time. Its key is the schedule and the time, so any number of schedulers submit one command. */
export async function fireSchedule(
  deps: CommandDeps,
  spec: Pick<ScheduleSpec, 'name' | 'command_type'> & { readonly payload?: JsonObject },
  { workspaceId, dueAt, traceId, requestId, by, follower }: Firing,
): Promise<Decision<SubmittedCommand>> {
  const task = findScheduledTask(deps.catalog, spec.command_type)
  if (!task)
    return refuse('task_unknown', `No task has the command type ${quote(spec.command_type)} now.`, {
      path: 'command_type',
    })
  return submitCommand(deps, by ?? { id: `schedule:${spec.name}`, kind: 'system', traceId }, {
    workspaceId,
    taskName: task.spec.name,
    payload: spec.payload ?? {},
    idempotencyKey: scheduleKey(spec.name, dueAt),
    ingress: 'scheduled_trigger',
    requestId,
    follower,
    metadata: { schedule: spec.name, due_at: dueAt.toISOString() },
  })
}
