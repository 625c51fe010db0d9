/** A due time becomes an ordinary command: its key is the schedule and the time, so any number of schedulers make one. */
import { KernelFault } from '#kernel/errors'
import { scheduleKey } from '#kernel/key-template'
import type { Decision } from '#kernel/refusal'
import type { ScheduleSpec } from './catalog/definitions.ts'
import { submitCommand, type SubmittedCommand } from './submit-command.ts'
import type { CommandWorld } from './world.ts'

export type Firing = {
  readonly workspaceId: string
  readonly dueAt: Date
  readonly traceId: string
  readonly requestId: string
}

export function fireSchedule(
  world: CommandWorld,
  spec: ScheduleSpec,
  { workspaceId, dueAt, traceId, requestId }: Firing,
): Promise<Decision<SubmittedCommand>> {
  const task = world.catalog.taskOfType.get(spec.command_type)
  if (!task) throw new KernelFault('commands.schedule.task', `no task runs ${spec.command_type}`)
  return submitCommand(
    world,
    { actor: `schedule:${spec.name}`, kind: 'system', traceId },
    {
      workspaceId,
      taskName: task.spec.name,
      payload: {},
      idempotencyKey: scheduleKey(spec.name, dueAt),
      ingress: 'scheduled_trigger',
      requestId,
      metadata: { schedule: spec.name, due_at: dueAt.toISOString() },
    },
  )
}
