/** Retention: archives what is past its time and not held, and lets go of its content; the sweep of blobs takes it afterwards. */
import { statement } from '#store'
import { moveArtifact } from './artifact-repository.ts'
import type { StoredArtifact } from './artifact-row.ts'
import { removedLocation } from './locate-content.ts'
import type { ArtifactDeps } from './deps.ts'

/** The states from which the machine leads into the archive; a draft is somebody's work, and what is published is in use. */
const listExpired = statement<StoredArtifact>(
  'artifacts_list_expired',
  `select t.* from concord.artifacts t
    where t.retain_until <= statement_timestamp() and t.hold_reason is null
      and t.status in ('ready', 'unpublished', 'superseded', 'cancelled') and t.status <> 'archived'
    order by t.retain_until limit $1`,
)

const BATCH = 200

/** How many were archived; a full batch says that there may be more. */
export async function archiveArtifacts(deps: ArtifactDeps, { traceId }: { readonly traceId: string }): Promise<number> {
  const by = { actor: 'system', kind: 'system' as const, traceId }
  let count = 0
  for (const artifact of await deps.db.run(listExpired, [BATCH])) {
    const location = removedLocation(artifact)
    // One statement each: a hold that comes in between is seen by its guard.
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
