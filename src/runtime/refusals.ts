/** The refusals of the runtime: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const runtimeRefusals = {
  'runtime.capability.missing': ['configuration', 'Choose another runtime, or remove the operation from the catalog.'],
  'runtime.queue.unknown': ['configuration', 'Name a queue that the project declares.'],
  'runtime.queue.invalid': ['configuration', 'Fix the queue in the project and restart.'],
  'runtime.environment.invalid': ['configuration', 'Use a short name such as staging or production.'],
  'runtime.kind.unknown': ['configuration', 'Register a driver for this kind before the runtime opens.'],
  'runtime.engine.unavailable': [
    'unavailable',
    'Check that the database answers, then start again. `concord doctor` checks the connection.',
  ],
  'runtime.schedule.invalid': ['invalid', 'Fix the schedule at the named position.'],
  'runtime.process.not_stuck': ['conflict', 'Nothing to do. `concord stuck` lists the stuck processes.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    runtime: typeof runtimeRefusals
  }
}
