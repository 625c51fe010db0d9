/** The refusals of flow: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const flowRefusals = {
  'flow.dag.invalid': ['invalid', 'Correct every finding in `facts.findings`, then deploy again.'],
  'flow.dag.changed': ['conflict', 'Try again: another deployment was first.'],
  'flow.dag.not_found': ['not_found', 'GET /flow/dags lists them.'],
  'flow.dag.version_unknown': ['not_found', 'GET /flow/dags/{name}/versions lists them.'],
  'flow.dataset.not_found': ['not_found', 'GET /flow/datasets lists them.'],
  'flow.dataset.not_readable': ['forbidden', 'Ask an administrator to add one of your org roles to its read roles.'],
  'flow.dataset.role_unknown': ['invalid', 'Name org roles of this organisation.'],
  'flow.job.not_found': ['not_found', 'GET /flow/jobs lists them.'],
  'flow.task.not_found': ['not_found', 'Take the id from the claim, or from GET /flow/tasks.'],
  'flow.task.wrong_state': ['conflict', 'Read `facts.status`: the call does not fit this state of the task.'],
  'flow.output.unknown': ['invalid', 'Report the outputs that the claim listed, by their index.'],
  'flow.output.twice': ['invalid', 'Report each output once, with all of its partitions.'],
  'flow.partition.empty': ['invalid', 'Give each partition a key.'],
  'flow.file.outside': ['invalid', 'Name a file below the prefix of the output, without `..`.'],
  'flow.data.unavailable': ['unavailable', 'Try again later. State and claims go on meanwhile.'],
  'flow.event.source_unknown': ['invalid', 'Name the dataset of a job whose source has the kind `event`.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    flow: typeof flowRefusals
  }
}
