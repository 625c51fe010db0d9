/** The refusals of the runtime: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const runtimeRefusals = {
  'runtime.capability.missing': ['configuration', 'Choose another runtime, or take the operation out of the catalog.'],
  'runtime.queue.unknown': ['configuration', 'Name a queue that the project declares.'],
  'runtime.queue.invalid': ['configuration', 'Mend the queue in the project and start again.'],
  'runtime.environment.invalid': ['configuration', 'Take a short name such as staging or production.'],
  'runtime.kind.unknown': ['configuration', 'Register a driver for this kind before the runtime opens.'],
  'runtime.engine.unavailable': [
    'unavailable',
    'Check that the database answers, then start again; `concord doctor` looks at it.',
  ],
  'runtime.schedule.invalid': ['invalid', 'Mend the schedule at the place that is named.'],
  'runtime.process.not_stuck': ['conflict', 'Nothing is to be done; `concord stuck` lists what is.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    runtime: typeof runtimeRefusals
  }
}
