/** The refusals of artifacts: types, content, lineage: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const artifactRefusals = {
  'artifacts.type.unknown': ['invalid', 'Define it with defineArtifactType.'],
  'artifacts.type.invalid': ['configuration', 'Fix the definition in the project and restart.'],
  'artifacts.type.incompatible': ['conflict', 'Keep what the stored artifacts need, or define a new type.'],
  'artifacts.draft.invalid': ['invalid', 'Fix the draft at the named position.'],
  'artifacts.draft.repeated': ['invalid', 'Give each artifact of one effect a name of its own.'],
  'artifacts.content.invalid': ['invalid', 'Write content that fits the schema of its type.'],
  'artifacts.content.too_large': ['too_large', 'Split it into several artifacts.'],
  'artifacts.content.missing': ['internal', 'Restore the content from a backup: the row exists, its bytes do not.'],
  'artifacts.content.altered': ['internal', 'Restore the content from a backup: the stored bytes changed.'],
  'artifacts.content.removed': ['not_found', 'Its row, its hash and its lineage are still here.'],
  'artifacts.content.range': ['range', 'Ask for bytes below `facts.size_bytes`, or without Range.'],
  'artifacts.store.unavailable': ['unavailable', 'Try again in a moment; nothing was written.'],
  'artifacts.store.unknown': ['unavailable', 'Configure the store that holds it, as it was when this was written.'],
  'artifacts.lineage.missing': ['invalid', 'Name what it was made from in `sources`.'],
  'artifacts.lineage.source_unknown': ['invalid', 'Name artifacts of this workspace by their ids.'],
  'artifacts.artifact.held': ['conflict', 'Read the artifact: its hold and its state say what can happen now.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    artifacts: typeof artifactRefusals
  }
}
