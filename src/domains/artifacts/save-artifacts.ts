/** Writes the rows that a writer has collected, under the lock of their blobs, in the caller's transaction; and the places where an artifact is published. */
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { statement, type Tx } from '#store'
import type { PendingWrite } from './artifact-writer.ts'
import {
  artifactTable,
  findArtifact,
  insertArtifact,
  lockBlob,
  moveArtifact,
  type Publication,
  type StoredArtifact,
} from './artifact.ts'
import type { ArtifactDeps } from './deps.ts'
import { findPlace } from './blob-store.ts'

const addSql = statement<StoredArtifact>(
  'artifacts_add_publication',
  `update concord.artifacts as t
      set publications = t.publications || jsonb_build_array($3::jsonb), published_to = $3::jsonb->>'destination'
    where t.workspace_id = $1 and t.artifact_id = $2 and t.status = 'published'
      and not t.publications @> jsonb_build_array(jsonb_build_object('domain_effect_id', $3::jsonb->'domain_effect_id',
        'destination', $3::jsonb->'destination'))
   returning t.*`,
)

const dropSql = statement<StoredArtifact>(
  'artifacts_drop_publication',
  `update concord.artifacts as t set publications = left_over.list, published_to = left_over.list->-1->>'destination'
     from (select s.artifact_id, jsonb_agg(p.entry order by p.place) as list
             from concord.artifacts s, jsonb_array_elements(s.publications) with ordinality as p(entry, place)
            where s.workspace_id = $1 and s.artifact_id = $2 and p.entry->>'domain_effect_id' is distinct from $3::text
            group by s.artifact_id) as left_over
    where t.workspace_id = $1 and t.artifact_id = left_over.artifact_id and t.status = 'published'
      and t.publications @> jsonb_build_array(jsonb_build_object('domain_effect_id', $3::text))
   returning t.*`,
)

type Deps = Pick<ArtifactDeps, 'newId' | 'now'>

/** False: it is not published any more. The same publication again is there already, and leaves no second event. */
async function addPublication(
  tx: Tx,
  deps: Deps,
  by: Actor,
  artifact: StoredArtifact,
  publication: Publication,
): Promise<boolean> {
  const [row] = await tx.run(addSql, [artifact.workspace_id, artifact.artifact_id, JSON.stringify(publication)])
  if (!row) return hasPublication(artifact, publication)
  await tell(tx, deps, by, row, 'artifact_published', publication)
  return true
}

/** False: nothing of this effect stood beside others. */
async function dropPublication(
  tx: Tx,
  deps: Deps,
  by: Actor,
  artifact: StoredArtifact,
  effectId: string,
): Promise<boolean> {
  const key = keyOf(artifact.publications, effectId)
  const gone = artifact.publications.find(({ domain_effect_id }) => domain_effect_id === key)
  const [row] = await tx.run(dropSql, [artifact.workspace_id, artifact.artifact_id, key])
  if (!row || !gone) return false
  await tell(tx, deps, by, row, 'artifact_withdrawn', gone)
  return true
}

/** Rows from before publications were told apart have one without an effect: who has none of their own means that one. */
function keyOf(publications: readonly Publication[], effectId: string): string | null {
  return publications.some(({ domain_effect_id }) => domain_effect_id === effectId) ? effectId : null
}

export function standingWithout(publications: readonly Publication[], effectId: string): readonly Publication[] {
  const key = keyOf(publications, effectId)
  return publications.filter(({ domain_effect_id }) => domain_effect_id !== key)
}

function hasPublication({ publications }: StoredArtifact, publication: Publication): boolean {
  return publications.some(
    ({ domain_effect_id, destination }) =>
      domain_effect_id === publication.domain_effect_id && destination === publication.destination,
  )
}

async function tell(
  tx: Tx,
  deps: Deps,
  by: Actor,
  artifact: StoredArtifact,
  type: 'artifact_published' | 'artifact_withdrawn',
  { destination, command_id: by_command_id }: Publication,
): Promise<void> {
  const { artifact_type, checksum } = artifact
  const payload = { artifact_type, published_to: destination, by_command_id, checksum }
  await artifactTable.append(tx, artifact, by, { type, at: deps.now(), newId: deps.newId, payload })
}

/** Throws when a write no longer fits: the transaction goes with it, and the next attempt looks at what is there now. */
export async function saveArtifacts(
  tx: Tx,
  deps: ArtifactDeps,
  by: Actor,
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
  by: Actor,
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

async function saveMoved(tx: Tx, deps: ArtifactDeps, by: Actor, workspaceId: string, write: Moved): Promise<void> {
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
  by: Actor,
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
  by: Actor,
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
