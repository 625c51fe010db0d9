/** Changes an artifact after it was written: finish, cancel, unpublish, hold, release, archive, erase. */
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import type { ArtifactState } from '#kernel/machines/artifact'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { isLostRace, type Sql, statement, type Tx } from '#store'
import {
  artifactTable,
  findArtifact,
  listArtifactsById,
  mayRead,
  moveArtifact,
  creatorIdOf,
  type StoredArtifact,
} from './artifact.ts'
import { refuseUnavailable, removedLocation, removeUnneeded } from './blob-store.ts'
import type { ArtifactDeps, ArtifactReader } from './deps.ts'
import { listLineageSql, lockLineageSql } from './read-artifacts.ts'

type ChangeArtifact = {
  readonly workspaceId: string
  readonly artifactId: string
  readonly reader: ArtifactReader
  readonly reason?: string | undefined
}

/** `reason` is without secrets. */
type Change = (tx: Tx, artifact: StoredArtifact, reason: string | undefined) => Promise<Decision<StoredArtifact>>

function change(
  deps: ArtifactDeps,
  { workspaceId, artifactId, reader, reason }: ChangeArtifact,
  work: Change,
): Promise<Decision<StoredArtifact>> {
  return deps.db.transaction(async (tx) => {
    const artifact = await findArtifact(tx, workspaceId, artifactId)
    if (!artifact || !mayRead(artifact, reader)) return artifactTable.missing()
    return work(tx, artifact, reason === undefined ? undefined : redactText(reason))
  })
}

function mover(to: ArtifactState, isForCreator: boolean) {
  return (deps: ArtifactDeps, by: Actor, asked: ChangeArtifact): Promise<Decision<StoredArtifact>> =>
    change(deps, asked, async (tx, artifact, reason) => {
      if (isForCreator && asked.reader.role !== 'admin' && artifact.created_by !== creatorIdOf(asked.reader))
        return refuse('machine.actor.not_allowed', 'Only the creator or an administrator may do this.')
      const payload = reason === undefined ? {} : { reason }
      // The events keep the former destinations.
      const set = to === 'unpublished' ? { publications: [] } : {}
      const moved = await moveArtifact(tx, deps, by, artifact, to, { set, payload })
      if (moved.ok) return accept(moved.row)
      // A concurrent call has already made the same change.
      return isLostRace(moved) && moved.row.status === to ? accept(moved.row) : moved
    })
}

export const finishArtifact = mover('ready', true)
export const cancelArtifact = mover('cancelled', true)
export const unpublishArtifact = mover('unpublished', false)

const setHold = statement<StoredArtifact>(
  'artifacts_set_hold',
  `update concord.artifacts as t set hold_reason = $3
   where t.workspace_id = $1 and t.artifact_id = $2 and t.status <> 'archived' and t.hold_reason is distinct from $3
   returning t.*`,
)

function holder(type: 'artifact_held' | 'artifact_released') {
  return (deps: ArtifactDeps, by: Actor, asked: ChangeArtifact): Promise<Decision<StoredArtifact>> =>
    change(deps, asked, async (tx, artifact, given) => {
      if (by.kind !== 'operator')
        return refuse('machine.actor.not_allowed', 'Only an administrator may hold or release an artifact.')
      const reason = type === 'artifact_held' ? (given ?? 'held') : null
      const [row] = await tx.run(setHold, [artifact.workspace_id, artifact.artifact_id, reason])
      if (!row) return refuseHold(artifact, reason)
      const fact = { type, at: deps.now(), newId: deps.newId, payload: { reason: given ?? null } }
      await artifactTable.append(tx, artifact, by, fact)
      return accept(row)
    })
}

/** Accepts a hold that is already set or released; refuses one on an archived artifact. */
function refuseHold(artifact: StoredArtifact, reason: string | null): Decision<StoredArtifact> {
  if (artifact.status !== 'archived' || artifact.hold_reason === reason) return accept(artifact)
  return refuse('artifacts.artifact.held', 'An archived artifact has no content to hold.')
}

export const holdArtifact = holder('artifact_held')
export const releaseArtifact = holder('artifact_released')

/** The statuses that the machine archives directly. A draft is work in progress, and a published artifact is in use. */
const listExpired = statement<StoredArtifact>(
  'artifacts_list_expired',
  `select t.* from concord.artifacts t
    where t.retain_until <= statement_timestamp() and t.hold_reason is null
      and t.status in ('ready', 'unpublished', 'superseded', 'cancelled') and t.status <> 'archived'
    order by t.retain_until limit $1`,
)

const BATCH = 200

/** Returns the number of archived artifacts. A full batch means that more may be due. */
export async function archiveArtifacts(deps: ArtifactDeps, { traceId }: { readonly traceId: string }): Promise<number> {
  const by = { id: 'system', kind: 'system' as const, traceId }
  let count = 0
  for (const artifact of await deps.db.run(listExpired, [BATCH])) {
    const location = removedLocation(artifact)
    // One statement per artifact, so that its guard sees a concurrent hold.
    const moved = await deps.db.transaction((tx) =>
      moveArtifact(tx, deps, by, artifact, 'archived', {
        set: { location },
        guards: ['expired'],
        payload: { retain_until: artifact.retain_until?.toISOString() ?? null, location },
      }),
    )
    if (moved.ok) count += 1
  }
  return count
}

/** The start of the lineage: the memories about a subject, and the commands that wrote them. */
type ForgottenLineage = {
  readonly workspaceId: string
  readonly memoryIds: readonly string[]
  readonly commandIds: readonly string[]
}

type KnownArtifact = { readonly kind: 'artifact'; readonly id: string; readonly isHeld: boolean }

type Forgetting = { readonly actor: Pick<Actor, 'id' | 'traceId'>; readonly erasureId: string }

/** The path of the machine from each status to `archived`. */
const pathToArchive: Readonly<Record<ArtifactState, readonly ArtifactState[]>> = {
  draft: ['cancelled', 'archived'],
  ready: ['archived'],
  published: ['unpublished', 'archived'],
  unpublished: ['archived'],
  superseded: ['archived'],
  cancelled: ['archived'],
  archived: [],
}

/** Keeps the type version and the data class only, because a title can reveal as much as the content. */
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
    /** Runs in the transaction of the erasure. Refuses an artifact on hold; the caller then rolls the transaction back. */
    async erase(tx: Tx, lineage: ForgottenLineage, by: Forgetting): Promise<Decision<readonly KnownArtifact[]>> {
      const rows = await tx.run(lockLineageSql, valuesOf(lineage))
      const held = rows.filter(({ hold_reason }) => hold_reason !== null)
      if (held.length > 0) return refuseHeld(held)
      for (const row of rows) await archive(tx, deps, row, by)
      await tx.run(emptyRows, [lineage.workspaceId, rows.map(({ artifact_id }) => artifact_id)])
      return accept(rows.map(knownOf))
    },
    /** Removes unneeded blobs after the commit. It can be repeated, and the sweep would remove them later. */
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
  return refuse('artifacts.artifact.held', `${which}. Nothing was erased.`, {
    hint: `An administrator must release it first: POST /artifacts/${ids[0]}/release.`,
    facts: { artifact_ids: ids },
  })
}

async function archive(tx: Tx, deps: ArtifactDeps, row: StoredArtifact, by: Forgetting): Promise<void> {
  const acting = { id: by.actor.id, kind: 'system' as const, traceId: by.actor.traceId }
  let now = row
  for (const to of pathToArchive[row.status]) {
    const set = to === 'archived' ? { set: { location: removedLocation(row) } } : {}
    const moved = await moveArtifact(tx, deps, acting, now, to, { ...set, payload: { erasure_id: by.erasureId } })
    if (!moved.ok) throw new KernelFault('artifacts.erase.lost', moved.reason)
    now = moved.row
  }
}
