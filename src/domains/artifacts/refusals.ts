/** The refusal codes of artifacts, each with its kind and its default hint. */
import type { RefusalTable } from '#kernel/refusal'

export const artifactRefusals = {
  'artifacts.type.unknown': ['invalid', 'Define it with defineArtifactType.'],
  'artifacts.type.invalid': ['configuration', 'Fix the definition in the project and restart.'],
  'artifacts.type.incompatible': ['conflict', 'List the stored version in `compatible_with`, or define a new type.'],
  'artifacts.draft.invalid': ['invalid', 'Fix the draft at the named position.'],
  'artifacts.draft.repeated': ['invalid', 'Give each artifact of an effect its own name.'],
  'artifacts.content.invalid': ['invalid', 'Write content that matches the schema of its type.'],
  'artifacts.content.too_large': ['too_large', 'Split it into several artifacts.'],
  'artifacts.content.missing': [
    'internal',
    'Restore the content from a backup: the row exists, but its content is missing.',
  ],
  'artifacts.content.altered': ['internal', 'Restore the content from a backup: the stored bytes changed.'],
  'artifacts.content.removed': ['not_found', 'The row, the checksum and the lineage are kept.'],
  'artifacts.content.range': ['range', 'Request bytes below `facts.size_bytes`, or omit Range.'],
  'artifacts.store.unavailable': ['unavailable', 'Try again later. Nothing was written.'],
  'artifacts.store.unknown': [
    'unavailable',
    'Configure the store that holds the content, as it was when the artifact was written.',
  ],
  'artifacts.lineage.missing': ['invalid', 'List what the artifact was made from in `sources`.'],
  'artifacts.lineage.source_unknown': ['invalid', 'Use the ids of artifacts of this workspace.'],
  'artifacts.artifact.held': [
    'conflict',
    'Read the artifact: its hold and its status show which changes are possible.',
  ],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    artifacts: typeof artifactRefusals
  }
}
