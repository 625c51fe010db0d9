/** Saves the rows that a writer collected, in the caller's transaction and under the locks of their blobs. */
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { statement, type Tx } from '#store'
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

export type PendingWrite =
  | {
      readonly t: 'write'
      readonly row: StoredArtifact
      readonly isDraft: boolean
      readonly supersedes: string | undefined
    }
  | { readonly t: 'publish'; readonly artifactId: string; readonly publication: Publication }
  /** From the destinations of one effect; null means from everywhere. */
  | { readonly t: 'withdraw'; readonly artifactId: string; readonly effectId: string | null }
  | { readonly t: 'cancel'; readonly artifactId: string }

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

/** The transaction and the actor of one save. */
type Saving = { readonly tx: Tx; readonly deps: ArtifactDeps; readonly by: Actor }

/** Throws when a write no longer matches the rows. That rolls the transaction back, and the next attempt reads the rows again. */
export async function saveArtifacts(
  tx: Tx,
  deps: ArtifactDeps,
  by: Actor,
  workspaceId: string,
  writes: readonly PendingWrite[],
): Promise<void> {
  const saving = { tx, deps, by }
  for (const write of writes) {
    if (write.t === 'write') await saveWritten(saving, write)
    else await saveMoved(saving, workspaceId, write)
  }
}

async function saveWritten(saving: Saving, write: Extract<PendingWrite, { t: 'write' }>): Promise<void> {
  const { tx, deps, by } = saving
  const { row, isDraft, supersedes } = write
  await holdBlob(saving, row.location)
  const saved = await insertArtifact(tx, deps, by, row)
  if (!saved.ok) throw new KernelFault('artifacts.write.refused', saved.reason, { code: saved.code })
  // An earlier commit of the same step wrote it, with its moves.
  if (!saved.value.inserted) return
  if (!isDraft) requireSaved(await moveArtifact(tx, deps, by, saved.value.row, 'ready'))
  if (supersedes === undefined) return
  const before = await findArtifact(tx, row.workspace_id, supersedes)
  if (!before) throw new KernelFault('artifacts.write.refused', 'The artifact to replace does not exist.')
  const set = { superseded_by: row.artifact_id }
  requireSaved(await moveArtifact(tx, deps, by, before, 'superseded', { set, payload: set }))
}

/** Locks the blob against removal until the end of the transaction, and checks that it exists (T1). */
async function holdBlob({ tx, deps }: Saving, location: string): Promise<void> {
  const place = findPlace(deps, location)
  if (!place) return
  await lockBlob(tx, location)
  if (!(await place.store.has(place.sha256)))
    throw new KernelFault('artifacts.blob.swept', 'The content was swept before its row was written.', { location })
}

async function saveMoved(
  saving: Saving,
  workspaceId: string,
  write: Exclude<PendingWrite, { t: 'write' }>,
): Promise<void> {
  const { tx, deps, by } = saving
  const artifact = await findArtifact(tx, workspaceId, write.artifactId)
  if (!artifact) throw new KernelFault('artifacts.write.refused', 'The artifact to change does not exist.')
  switch (write.t) {
    case 'publish':
      return savePublished(saving, artifact, write.publication)
    case 'withdraw':
      return saveWithdrawn(saving, artifact, write.effectId)
    case 'cancel':
      if (artifact.status !== 'cancelled') requireSaved(await moveArtifact(tx, deps, by, artifact, 'cancelled'))
  }
}

async function savePublished(saving: Saving, artifact: StoredArtifact, publication: Publication): Promise<void> {
  const { tx, deps, by } = saving
  const { destination: published_to, command_id: by_command_id } = publication
  if (artifact.status === 'published') {
    const [row] = await tx.run(addSql, [artifact.workspace_id, artifact.artifact_id, JSON.stringify(publication)])
    // No row: withdrawn in the meantime, or a repeated publication, which writes no second event.
    if (row) return appendFact(saving, row, 'artifact_published', publication)
    return requireSaved({
      ok: hasPublication(artifact, publication),
      reason: 'The artifact was withdrawn in the meantime.',
    })
  }
  const moved = await moveArtifact(tx, deps, by, artifact, 'published', {
    set: { published_to, publications: [publication] },
    payload: { published_to, by_command_id, checksum: artifact.checksum },
  })
  requireSaved(moved)
}

async function saveWithdrawn(saving: Saving, artifact: StoredArtifact, effectId: string | null): Promise<void> {
  // Already withdrawn, or never published by this effect.
  if (artifact.status !== 'published') return
  const { tx, deps, by } = saving
  const { workspace_id, artifact_id, publications } = artifact
  if (effectId === null || publicationsWithout(publications, effectId).length === 0)
    return requireSaved(await moveArtifact(tx, deps, by, artifact, 'unpublished', { set: { publications: [] } }))
  const key = keyOf(publications, effectId)
  const gone = publications.find(({ domain_effect_id }) => domain_effect_id === key)
  const [row] = await tx.run(dropSql, [workspace_id, artifact_id, key])
  if (row && gone) await appendFact(saving, row, 'artifact_withdrawn', gone)
}

/** Older rows hold one publication without an effect; for an effect without its own publication, that one counts. */
function keyOf(publications: readonly Publication[], effectId: string): string | null {
  return publications.some(({ domain_effect_id }) => domain_effect_id === effectId) ? effectId : null
}

export function publicationsWithout(publications: readonly Publication[], effectId: string): readonly Publication[] {
  const key = keyOf(publications, effectId)
  return publications.filter(({ domain_effect_id }) => domain_effect_id !== key)
}

function hasPublication({ publications }: StoredArtifact, publication: Publication): boolean {
  return publications.some(
    ({ domain_effect_id, destination }) =>
      domain_effect_id === publication.domain_effect_id && destination === publication.destination,
  )
}

async function appendFact(
  { tx, deps, by }: Saving,
  artifact: StoredArtifact,
  type: 'artifact_published' | 'artifact_withdrawn',
  { destination, command_id: by_command_id }: Publication,
): Promise<void> {
  const { artifact_type, checksum } = artifact
  const payload = { artifact_type, published_to: destination, by_command_id, checksum }
  await artifactTable.append(tx, artifact, by, { type, at: deps.now(), newId: deps.newId, payload })
}

function requireSaved(moved: { readonly ok: boolean; readonly reason?: string }): void {
  if (!moved.ok)
    throw new KernelFault('artifacts.write.refused', moved.reason ?? 'The artifact changed in the meantime.')
}
