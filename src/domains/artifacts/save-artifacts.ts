/** Puts down what a writer has written: rows under the lock of their blobs, moves along the machine, all in the caller's transaction. */
import { KernelFault } from '#kernel/errors'
import type { Tx } from '#store'
import { findArtifact, insertArtifact, lockBlob, moveArtifact } from './artifact-repository.ts'
import type { Publication, StoredArtifact } from './artifact-row.ts'
import { findPlace } from './locate-content.ts'
import type { PendingWrite } from './artifact-writer.ts'
import { addPublication, dropPublication, standingWithout } from './publish-again.ts'
import type { Acting, ArtifactDeps } from './deps.ts'

/** Throws when a write no longer fits: the transaction goes with it, and the next attempt looks at what is there now. */
export async function saveArtifacts(
  tx: Tx,
  deps: ArtifactDeps,
  by: Acting,
  workspaceId: string,
  writes: readonly PendingWrite[],
): Promise<void> {
  for (const write of writes) {
    if (write.t === 'write') await saveWritten(tx, deps, by, write)
    else await saveMoved(tx, deps, by, workspaceId, write)
  }
}

type Written = Extract<PendingWrite, { t: 'write' }>
type Moved = Exclude<PendingWrite, { t: 'write' }>

async function saveWritten(
  tx: Tx,
  deps: ArtifactDeps,
  by: Acting,
  { row, isDraft, supersedes }: Written,
): Promise<void> {
  await holdBlob(tx, deps, row)
  const saved = await insertArtifact(tx, deps, by, row)
  if (!saved.ok) throw new KernelFault('artifacts.write.refused', saved.reason, { code: saved.code })
  // Written by an earlier commit of the same step: its moves are there too.
  if (!saved.value.inserted) return
  if (!isDraft) settled(await moveArtifact(tx, deps, by, saved.value.row, 'ready'))
  if (supersedes === undefined) return
  const before = await findArtifact(tx, row.workspace_id, supersedes)
  if (!before) throw new KernelFault('artifacts.write.refused', 'the artifact to be replaced is gone')
  const set = { superseded_by: row.artifact_id }
  settled(await moveArtifact(tx, deps, by, before, 'superseded', { set, payload: set }))
}

async function saveMoved(tx: Tx, deps: ArtifactDeps, by: Acting, workspaceId: string, write: Moved): Promise<void> {
  const artifact = await findArtifact(tx, workspaceId, write.artifactId)
  if (!artifact) throw new KernelFault('artifacts.write.refused', 'the artifact to be moved is gone')
  switch (write.t) {
    case 'publish':
      return savePublished(tx, deps, by, artifact, write.publication)
    case 'withdraw':
      return saveWithdrawn(tx, deps, by, artifact, write.effectId)
    case 'cancel':
      if (artifact.status !== 'cancelled') settled(await moveArtifact(tx, deps, by, artifact, 'cancelled'))
  }
}

async function savePublished(
  tx: Tx,
  deps: ArtifactDeps,
  by: Acting,
  artifact: StoredArtifact,
  publication: Publication,
): Promise<void> {
  if (artifact.status === 'published') {
    const isThere = await addPublication(tx, deps, by, artifact, publication)
    return settled({ ok: isThere, reason: 'it was withdrawn meanwhile' })
  }
  const { destination: published_to, command_id: by_command_id } = publication
  settled(
    await moveArtifact(tx, deps, by, artifact, 'published', {
      set: { published_to, publications: [publication] },
      payload: { published_to, by_command_id, checksum: artifact.checksum },
    }),
  )
}

async function saveWithdrawn(
  tx: Tx,
  deps: ArtifactDeps,
  by: Acting,
  artifact: StoredArtifact,
  effectId: string | null,
): Promise<void> {
  // Withdrawn by somebody else meanwhile, or never brought anywhere by this effect: there is nothing to take back.
  if (artifact.status !== 'published') return
  if (effectId !== null && standingWithout(artifact.publications, effectId).length > 0) {
    await dropPublication(tx, deps, by, artifact, effectId)
    return
  }
  settled(await moveArtifact(tx, deps, by, artifact, 'unpublished', { set: { publications: [] } }))
}

/** Until the end of the transaction nobody removes the blob; and it is there (T1). */
async function holdBlob(tx: Tx, deps: ArtifactDeps, { location }: Pick<StoredArtifact, 'location'>): Promise<void> {
  const place = findPlace(deps, location)
  if (!place) return
  await lockBlob(tx, location)
  if (!(await place.store.has(place.sha256)))
    throw new KernelFault('artifacts.blob.swept', 'the content was swept before its row was written', { location })
}

function settled(moved: { readonly ok: boolean; readonly reason?: string }): void {
  if (!moved.ok) throw new KernelFault('artifacts.write.refused', moved.reason ?? 'it moved meanwhile')
}
