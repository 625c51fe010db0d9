/** Submits the command of a due schedule. Its key is the schedule and the time, so any number of schedulers submit one command. */
import type { Actor } from '#kernel/actor'
import { scheduleKey } from '#kernel/idempotency-key'
import type { JsonObject } from '#kernel/json-value'
import { type Decision, quote, refuse } from '#kernel/refusal'
import type { Process } from '#runtime'
import type { ScheduleSpec } from './catalog/definitions.ts'
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import { submitCommand, type SubmittedCommand } from './submit.ts'
import type { CommandDeps } from './deps.ts'

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

export async function fireSchedule(
  deps: CommandDeps,
  spec: Pick<ScheduleSpec, 'name' | 'command_type'> & { readonly payload?: JsonObject },
  { workspaceId, dueAt, traceId, requestId, by, follower }: Firing,
): Promise<Decision<SubmittedCommand>> {
  const task = findScheduledTask(deps.catalog, spec.command_type)
  if (!task)
    return refuse('task_unknown', `No task has the command type ${quote(spec.command_type)} any more.`, {
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
