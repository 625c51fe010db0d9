/** The possible capabilities of a durable runtime; a catalog that needs more than its runtime offers does not start. */
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
