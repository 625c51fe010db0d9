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

export function mapTaskToPrimitives(task: TaskSpec): readonly Primitive[] {
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

/** The primitive and the queue of effects by the prefix of their type. */
const byPrefix: readonly { readonly prefix: string; readonly primitive?: Primitive; readonly queue?: QueueName }[] = [
  { prefix: 'connector.', primitive: 'connector_call', queue: 'connector_calls' },
  { prefix: 'artifact.', primitive: 'artifact_write' },
  { prefix: 'memory.recall' },
  { prefix: 'memory.', primitive: 'memory_write' },
  { prefix: 'notification.', primitive: 'notification', queue: 'notifications' },
  { prefix: 'agent.run', queue: 'agent_runs' },
  { prefix: 'agent.spawn', queue: 'swarm_children' },
]

const termsOf = (effectType: string) => byPrefix.find(({ prefix }) => effectType.startsWith(prefix))

/** The primitive of an effect; a type without a known prefix is plain work. */
export function primitiveOf(effectType: string, isSync: boolean): Primitive {
  return termsOf(effectType)?.primitive ?? (isSync ? 'sync_function' : 'async_task')
}

/** Whether one of the effects is of the primitive. */
export function hasPrimitive(effectTypes: readonly string[], primitive: Primitive): boolean {
  return effectTypes.some((effectType) => termsOf(effectType)?.primitive === primitive)
}

export function chooseQueue(effect: { readonly effect_type: string }): QueueName {
  return termsOf(effect.effect_type)?.queue ?? 'concord_default'
}
