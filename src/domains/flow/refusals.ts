/** The refusals of flow: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const flowRefusals = {
  'flow.dag.invalid': ['invalid', 'Correct every finding in `facts.findings`, then deploy again.'],
  'flow.dag.changed': ['conflict', 'Try again: another deployment was first.'],
  'flow.dag.not_found': ['not_found', 'List the DAGs that serve.'],
  'flow.dag.version_unknown': ['not_found', 'Take the id from the result of its deployment.'],
  'flow.dataset.not_found': ['not_found', 'Deploy the DAG that produces it first.'],
  'flow.task.not_found': ['not_found', 'Take the id from the claim.'],
  'flow.task.wrong_state': ['conflict', 'Read `facts.status`: the call does not fit this state of the task.'],
  'flow.output.unknown': ['invalid', 'Report the outputs that the claim listed, by their index.'],
  'flow.output.twice': ['invalid', 'Report each output once, with all of its partitions.'],
  'flow.partition.empty': ['invalid', 'Give each partition a key.'],
  'flow.event.source_unknown': ['invalid', 'Name the dataset of a job whose source has the kind `event`.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    flow: typeof flowRefusals
  }
}
