/** The primitives that the commands of a task pass through, and the queues of their effects. Pure. */
import type { TaskSpec } from './definitions.ts'

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

/** The primitives that do work; each run is an effect with its events. */
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
  const when = (isUsed: boolean, ...used: Primitive[]) => (isUsed ? used : [])
  const isSync = isSyncTask(task)
  return [
    'ingress',
    'command',
    'context',
    'policy',
    'plan',
    ...when(task.approval_required, 'human_approval'),
    ...when(isSync, 'sync_function'),
    ...when(!isSync, 'queue', 'async_task'),
    ...when(task.connector_requirements.length > 0, 'connector_call'),
    ...when(task.artifact_output_possible, 'artifact_write'),
    ...when(task.memory_write_possible, 'memory_write'),
    ...when(task.notification_required, 'notification'),
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

/** The primitive of an effect; a type without a known prefix is plain work. */
export function primitiveOf(effectType: string, isSync: boolean): Primitive {
  const known = primitiveOfPrefix.find(([prefix]) => effectType.startsWith(prefix))
  return known?.[1] ?? (isSync ? 'sync_function' : 'async_task')
}

/** The names of the queues; the runtime sets their limits. */
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

export function chooseQueue(effect: { readonly effect_type: string }): QueueName {
  return byPrefix.find(([prefix]) => effect.effect_type.startsWith(prefix))?.[1] ?? 'concord_default'
}
