/** What a durable runtime may be able to do; a catalog that needs more than its runtime has does not start. */
export const runtimeCapabilities = [
  'durable_workflows',
  'durable_steps',
  'queues',
  'schedules',
  'signals',
  'subworkflows',
  'effect_interception',
  'saga_compensation_native',
  'workflow_versioning',
] as const
export type RuntimeCapability = (typeof runtimeCapabilities)[number]
