/** What the runtime on DBOS can do, and what of it is the engine's own. */
import type { RuntimeProfile } from '#runtime'
import { ENGINE_VERSION } from './internals.ts'

export const dbosProfile: RuntimeProfile = {
  name: 'DBOSDurableRuntime',
  engine: 'dbos',
  engineVersion: ENGINE_VERSION,
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
