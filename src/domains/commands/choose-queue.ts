/** Which queue an effect waits in, by the beginning of its type. Concord knows names; their limits are the runtime's. Pure. */
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
