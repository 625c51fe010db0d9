/** Puts down what a pen has written: rows under the lock of their blobs, moves along the machine, all in the caller's transaction. */
import { KernelFault } from '#kernel/errors'
import type { Tx } from '#store'
import { findArtifact, insertArtifact, lockBlob, moveArtifact } from './artifact-repository.ts'
import type { Publication, StoredArtifact } from './artifact-row.ts'
import { findPlace } from './locate-content.ts'
import type { Stroke } from './pen.ts'
import { addPublication, dropPublication, standingWithout } from './publish-again.ts'
import type { Acting, ArtifactWorld } from './world.ts'

/** Throws when a stroke no longer fits: the transaction goes with it, and the next attempt looks at what is there now. */
export async function saveStrokes(
  tx: Tx,
  world: ArtifactWorld,
  by: Acting,
  workspaceId: string,
  strokes: readonly Stroke[],
): Promise<void> {
  for (const stroke of strokes) {
    if (stroke.t === 'write') await saveWritten(tx, world, by, stroke)
    else await saveMoved(tx, world, by, workspaceId, stroke)
  }
}

type Written = Extract<Stroke, { t: 'write' }>
type Moved = Exclude<Stroke, { t: 'write' }>

async function saveWritten(
  tx: Tx,
  world: ArtifactWorld,
  by: Acting,
  { row, isDraft, supersedes }: Written,
): Promise<void> {
  await holdBlob(tx, world, row)
  const saved = await insertArtifact(tx, world, by, row)
  if (!saved.ok) throw new KernelFault('artifacts.stroke.refused', saved.reason, { code: saved.code })
  // Written by an earlier commit of the same step: its moves are there too.
  if (!saved.value.inserted) return
  if (!isDraft) settled(await moveArtifact(tx, world, by, saved.value.row, 'ready'))
  if (supersedes === undefined) return
  const before = await findArtifact(tx, row.workspace_id, supersedes)
  if (!before) throw new KernelFault('artifacts.stroke.refused', 'the artifact to be replaced is gone')
  const set = { superseded_by: row.artifact_id }
  settled(await moveArtifact(tx, world, by, before, 'superseded', { set, payload: set }))
}

async function saveMoved(tx: Tx, world: ArtifactWorld, by: Acting, workspaceId: string, stroke: Moved): Promise<void> {
  const artifact = await findArtifact(tx, workspaceId, stroke.artifactId)
  if (!artifact) throw new KernelFault('artifacts.stroke.refused', 'the artifact to be moved is gone')
  switch (stroke.t) {
    case 'publish':
      return savePublished(tx, world, by, artifact, stroke.publication)
    case 'withdraw':
      return saveWithdrawn(tx, world, by, artifact, stroke.effectId)
    case 'cancel':
      if (artifact.status !== 'cancelled') settled(await moveArtifact(tx, world, by, artifact, 'cancelled'))
  }
}

async function savePublished(
  tx: Tx,
  world: ArtifactWorld,
  by: Acting,
  artifact: StoredArtifact,
  publication: Publication,
): Promise<void> {
  if (artifact.status === 'published') {
    const isThere = await addPublication(tx, world, by, artifact, publication)
    return settled({ ok: isThere, reason: 'it was withdrawn meanwhile' })
  }
  const { destination: published_to, command_id: by_command_id } = publication
  settled(
    await moveArtifact(tx, world, by, artifact, 'published', {
      set: { published_to, publications: [publication] },
      payload: { published_to, by_command_id, checksum: artifact.checksum },
    }),
  )
}

async function saveWithdrawn(
  tx: Tx,
  world: ArtifactWorld,
  by: Acting,
  artifact: StoredArtifact,
  effectId: string | null,
): Promise<void> {
  // Withdrawn by somebody else meanwhile, or never brought anywhere by this effect: there is nothing to take back.
  if (artifact.status !== 'published') return
  if (effectId !== null && standingWithout(artifact.publications, effectId).length > 0) {
    await dropPublication(tx, world, by, artifact, effectId)
    return
  }
  settled(await moveArtifact(tx, world, by, artifact, 'unpublished', { set: { publications: [] } }))
}

/** Until the end of the transaction nobody removes the blob; and it is there (T1). */
async function holdBlob(tx: Tx, world: ArtifactWorld, { location }: Pick<StoredArtifact, 'location'>): Promise<void> {
  const place = findPlace(world, location)
  if (!place) return
  await lockBlob(tx, location)
  if (!(await place.store.has(place.sha256)))
    throw new KernelFault('artifacts.blob.swept', 'the content was swept before its row was written', { location })
}

function settled(moved: { readonly ok: boolean; readonly reason?: string }): void {
  if (!moved.ok) throw new KernelFault('artifacts.stroke.refused', moved.reason ?? 'it moved meanwhile')
}
