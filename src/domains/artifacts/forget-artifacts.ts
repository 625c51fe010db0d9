/** What artifacts know of somebody who is to be forgotten, and how they let go: rows stay as ids and times, what they say goes (T12). */
import { KernelFault } from '#kernel/errors'
import type { ArtifactState } from '#kernel/machines/artifact'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import { listArtifactsById, moveArtifact } from './artifact-repository.ts'
import type { StoredArtifact } from './artifact-row.ts'
import { refuseUnavailable } from './blob-store.ts'
import { removedLocation } from './locate-content.ts'
import { listLineageSql, lockLineageSql } from './sql/find-lineage.ts'
import { removeUnneeded } from './sweep-blobs.ts'
import type { ArtifactDeps } from './deps.ts'

/** What names the lineage: the memories that know somebody, and the commands that wrote them. */
export type ForgottenLineage = {
  readonly workspaceId: string
  readonly memoryIds: readonly string[]
  readonly commandIds: readonly string[]
}

export type KnownArtifact = { readonly kind: 'artifact'; readonly id: string; readonly isHeld: boolean }

export type Forgetting = { readonly actor: string; readonly traceId: string; readonly erasureId: string }

/** The way into the archive from each state, along the machine. */
const wayOut: Readonly<Record<ArtifactState, readonly ArtifactState[]>> = {
  draft: ['cancelled', 'archived'],
  ready: ['archived'],
  published: ['unpublished', 'archived'],
  unpublished: ['archived'],
  superseded: ['archived'],
  cancelled: ['archived'],
  archived: [],
}

/** A title can say as much as the content; the type and the class say what kind of thing it was. */
const emptyRows = statement<never>(
  'artifacts_empty_rows',
  `update concord.artifacts t set location = 'removed:' || substr(t.checksum, 8), metadata = jsonb_strip_nulls(
     jsonb_build_object('type_version', t.metadata->'type_version', 'data_class', t.metadata->'data_class'))
   where t.workspace_id = $1 and t.artifact_id = any($2::uuid[])`,
)

export function forgetArtifacts(deps: ArtifactDeps) {
  const valuesOf = ({ workspaceId, memoryIds, commandIds }: ForgottenLineage) => [workspaceId, memoryIds, commandIds]
  return {
    kind: 'artifact',
    list: async (sql: Sql, lineage: ForgottenLineage): Promise<readonly KnownArtifact[]> =>
      (await sql.run(listLineageSql, valuesOf(lineage))).map(knownOf),
    /** In the transaction of the erasure. A hold stops it: nothing is written, and the caller gives up the transaction. */
    async erase(tx: Tx, lineage: ForgottenLineage, by: Forgetting): Promise<Decision<readonly KnownArtifact[]>> {
      const rows = await tx.run(lockLineageSql, valuesOf(lineage))
      const held = rows.filter(({ hold_reason }) => hold_reason !== null)
      if (held.length > 0) return refuseHeld(held)
      for (const row of rows) await archive(tx, deps, row, by)
      await tx.run(emptyRows, [lineage.workspaceId, rows.map(({ artifact_id }) => artifact_id)])
      return accept(rows.map(knownOf))
    },
    /** After the commit, as often as one likes: the blobs that no row needs any more. The sweep would take them later. */
    async settle(workspaceId: string, ids: readonly string[]): Promise<Decision<null>> {
      const rows = await listArtifactsById(deps.db, workspaceId, ids)
      const blobs = rows.map(({ checksum }) => checksum.slice('sha256:'.length))
      for (const store of deps.stores) {
        try {
          await removeUnneeded(deps, store, blobs)
        } catch (error) {
          return refuseUnavailable(store.scheme, error)
        }
      }
      return accept(null)
    },
  }
}

function knownOf({ artifact_id, hold_reason }: StoredArtifact): KnownArtifact {
  return { kind: 'artifact', id: artifact_id, isHeld: hold_reason !== null }
}

function refuseHeld(held: readonly StoredArtifact[]): Decision<never> {
  const ids = held.map(({ artifact_id }) => artifact_id)
  const which = ids.length === 1 ? `The artifact ${ids[0]} is held` : `${ids.length} artifacts are held`
  return refuse('artifacts.artifact.held', `${which} and must be kept; nothing was erased.`, {
    hint: `An administrator releases it first: POST /artifacts/${ids[0]}/release.`,
    facts: { artifact_ids: ids },
  })
}

async function archive(tx: Tx, deps: ArtifactDeps, row: StoredArtifact, by: Forgetting): Promise<void> {
  const acting = { actor: by.actor, kind: 'system' as const, traceId: by.traceId }
  let now = row
  for (const to of wayOut[row.status]) {
    const set = to === 'archived' ? { set: { location: removedLocation(row) } } : {}
    const moved = await moveArtifact(tx, deps, acting, now, to, { ...set, payload: { erasure_id: by.erasureId } })
    if (!moved.ok) throw new KernelFault('artifacts.erase.lost', moved.reason)
    now = moved.row
  }
}
