/** The step that writes one artifact for a command: the row and its event in one transaction, once however often it is repeated. */
import { accept, type Decision } from '#kernel/refusal'
import { findArtifact } from './artifact-repository.ts'
import type { StoredArtifact } from './artifact-row.ts'
import type { ArtifactDraft } from './check-draft.ts'
import { openArtifactWriter } from './artifact-writer.ts'
import { saveArtifacts } from './save-artifacts.ts'
import type { Acting, ArtifactDeps } from './deps.ts'

export type WriteArtifact = ArtifactDraft & {
  readonly workspaceId: string
  readonly commandId: string
  readonly agentRunId?: string
  readonly swarmRunId?: string
  readonly createdBy: string
  /** Tells the steps of one command apart. */
  readonly step: string
}

export async function writeArtifact(
  deps: ArtifactDeps,
  by: Acting,
  { workspaceId, commandId, agentRunId, swarmRunId, createdBy, step, ...draft }: WriteArtifact,
): Promise<Decision<StoredArtifact>> {
  const writer = openArtifactWriter(deps, {
    workspaceId,
    commandId,
    effectId: null,
    agentRunId: agentRunId ?? null,
    swarmRunId: swarmRunId ?? null,
    createdBy,
    scope: `${commandId}:${step}`,
  })
  const again = await findArtifact(deps.db, workspaceId, writer.idOf(draft.type))
  // A replay does not replace the version before a second time, nor write the content again.
  if (again) return accept(again)
  const written = await writer.write(draft)
  if (!written.ok) return written
  const { artifact_id } = written.value
  return deps.db.transaction(async (tx) => {
    await saveArtifacts(tx, deps, by, workspaceId, writer.writes)
    const row = await findArtifact(tx, workspaceId, artifact_id)
    return row ? accept(row) : { ok: false, code: 'row.not_found', reason: 'there is no such artifact' }
  })
}
