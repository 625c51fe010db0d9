/** The step that writes one artifact for a command: the row and its event in one transaction, once however often it is repeated. */
import { accept, type Decision } from '#kernel/refusal'
import { findArtifact } from './artifact-repository.ts'
import type { StoredArtifact } from './artifact-row.ts'
import type { ArtifactDraft } from './check-draft.ts'
import { openPen } from './pen.ts'
import { saveStrokes } from './save-strokes.ts'
import type { Acting, ArtifactWorld } from './world.ts'

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
  world: ArtifactWorld,
  by: Acting,
  { workspaceId, commandId, agentRunId, swarmRunId, createdBy, step, ...draft }: WriteArtifact,
): Promise<Decision<StoredArtifact>> {
  const pen = openPen(world, {
    workspaceId,
    commandId,
    effectId: null,
    agentRunId: agentRunId ?? null,
    swarmRunId: swarmRunId ?? null,
    createdBy,
    scope: `${commandId}:${step}`,
  })
  const again = await findArtifact(world.db, workspaceId, pen.idOf(draft.type))
  // A replay does not replace the version before a second time, nor write the content again.
  if (again) return accept(again)
  const written = await pen.write(draft)
  if (!written.ok) return written
  const { artifact_id } = written.value
  return world.db.transaction(async (tx) => {
    await saveStrokes(tx, world, by, workspaceId, pen.strokes)
    const row = await findArtifact(tx, workspaceId, artifact_id)
    return row ? accept(row) : { ok: false, code: 'row.not_found', reason: 'there is no such artifact' }
  })
}
