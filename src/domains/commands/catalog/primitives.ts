/** The ten families of primitives, and how a task spec maps to the primitives its commands pass through. Pure. */
import type { TaskSpec } from './task-spec.ts'

export const primitiveFamilies = [
  'ingress',
  'intent',
  'policy_and_planning',
  'execution',
  'coordination',
  'state_lifecycle',
  'human_judgment',
  'knowledge_and_output',
  'connectors',
  'observability_and_governance',
] as const

export const primitives = [
  'ingress',
  'command',
  'context',
  'policy',
  'plan',
  'human_approval',
  'queue',
  'async_task',
  'sync_function',
  'connector_call',
  'artifact_write',
  'memory_write',
  'notification',
  'state_transition',
  'audit',
] as const
export type Primitive = (typeof primitives)[number]

/** Where work is really done; each run of one shows as an effect with its events. */
export const executionPrimitives = [
  'sync_function',
  'async_task',
  'connector_call',
  'agent_run',
  'external_job',
  'notification',
] as const

type Flags = Pick<
  TaskSpec,
  | 'approval_required'
  | 'async_required'
  | 'sync_allowed'
  | 'connector_requirements'
  | 'artifact_output_possible'
  | 'memory_write_possible'
  | 'notification_required'
>

export function mapTaskToPrimitives(task: Flags): readonly Primitive[] {
  const isSync = isSyncTask(task)
  return [
    'ingress',
    'command',
    'context',
    'policy',
    'plan',
    ...(task.approval_required ? (['human_approval'] as const) : []),
    ...(isSync ? (['sync_function'] as const) : (['queue', 'async_task'] as const)),
    ...(task.connector_requirements.length > 0 ? (['connector_call'] as const) : []),
    ...(task.artifact_output_possible ? (['artifact_write'] as const) : []),
    ...(task.memory_write_possible ? (['memory_write'] as const) : []),
    ...(task.notification_required ? (['notification'] as const) : []),
    'state_transition',
    'audit',
  ]
}

/** `async_required` wins over `sync_allowed`; neither means async. */
export function isSyncTask(task: Pick<TaskSpec, 'async_required' | 'sync_allowed'>): boolean {
  return !task.async_required && task.sync_allowed
}

const primitiveOfPrefix = [
  ['connector.', 'connector_call'],
  ['artifact.', 'artifact_write'],
  ['memory.', 'memory_write'],
  ['notification.', 'notification'],
] as const satisfies readonly (readonly [string, Primitive])[]

/** The primitive that an effect is an instance of; whatever has no family of its own is plain work. */
export function primitiveOf(effectType: string, isSync: boolean): Primitive {
  const known = primitiveOfPrefix.find(([prefix]) => effectType.startsWith(prefix))
  return known?.[1] ?? (isSync ? 'sync_function' : 'async_task')
}

/** The queues by name; their limits are the runtime's. */
export const queueNames = [
  'concord_default',
  'connector_calls',
  'agent_runs',
  'swarm_children',
  'notifications',
  'scheduled_maintenance',
  'compensations',
  'registry_lifecycle',
] as const
export type QueueName = (typeof queueNames)[number]

const byPrefix = [
  ['connector.', 'connector_calls'],
  ['agent.run', 'agent_runs'],
  ['agent.spawn', 'swarm_children'],
  ['notification.', 'notifications'],
] as const satisfies readonly (readonly [string, QueueName])[]

/** By the beginning of the effect's type. */
export function chooseQueue(effect: { readonly effect_type: string }): QueueName {
  return byPrefix.find(([prefix]) => effect.effect_type.startsWith(prefix))?.[1] ?? 'concord_default'
}
