/** The capabilities of the reference runtime: those of the default one, so that a test meets the same refusals. */
import type { RuntimeProfile } from '#runtime'

export const referenceProfile: RuntimeProfile = {
  name: 'ReferenceRuntime',
  engine: 'memory',
  engineVersion: '1',
  capabilities: {
    durable_workflows: 'native',
    durable_steps: 'composed',
    queues: 'native',
    schedules: 'composed',
    signals: 'none',
    subworkflows: 'composed',
    effect_interception: 'composed',
    saga_compensation_native: 'none',
    workflow_versioning: 'none',
  },
  notes: { signals: 'a fact on a row and a wake; no payload travels through the runtime' },
}
