/** What people do with an artifact directly: finish a draft, give one up, take one back, hold it and let it go. */
import type { ArtifactState } from '#kernel/machines/artifact'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendEvents, isLostRace, statement, type Tx } from '#store'
import { findArtifact, moveArtifact } from './artifact-repository.ts'
import type { StoredArtifact } from './artifact-row.ts'
import { artifactLog } from './events.ts'
import { mayRead, personOf } from './may-read.ts'
import type { Acting, ArtifactDeps, Reader } from './deps.ts'

type ChangeArtifact = {
  readonly workspaceId: string
  readonly artifactId: string
  readonly reader: Reader
  readonly reason?: string | undefined
}

type Change = (tx: Tx, artifact: StoredArtifact) => Promise<Decision<StoredArtifact>>

function change(
  deps: ArtifactDeps,
  { workspaceId, artifactId, reader }: ChangeArtifact,
  work: Change,
): Promise<Decision<StoredArtifact>> {
  return deps.db.transaction(async (tx) => {
    const artifact = await findArtifact(tx, workspaceId, artifactId)
    if (!artifact || !mayRead(artifact, reader)) return refuse('row.not_found', 'there is no such artifact')
    return work(tx, artifact)
  })
}

function mover(to: ArtifactState, isForCreator: boolean) {
  return (deps: ArtifactDeps, by: Acting, asked: ChangeArtifact): Promise<Decision<StoredArtifact>> =>
    change(deps, asked, async (tx, artifact) => {
      if (isForCreator && asked.reader.role !== 'admin' && artifact.created_by !== personOf(asked.reader))
        return refuse('machine.actor.not_allowed', 'Only its creator or an administrator does this.')
      const payload = asked.reason === undefined ? {} : { reason: asked.reason }
      // What is withdrawn is published nowhere; where it had been is in the events.
      const set = to === 'unpublished' ? { publications: [] } : {}
      const moved = await moveArtifact(tx, deps, by, artifact, to, { set, payload })
      if (moved.ok) return accept(moved.row)
      // Who comes second and wanted the same has what he wanted.
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
  return (deps: ArtifactDeps, by: Acting, asked: ChangeArtifact): Promise<Decision<StoredArtifact>> =>
    change(deps, asked, async (tx, artifact) => {
      if (by.kind !== 'operator') return refuse('machine.actor.not_allowed', 'Only an administrator holds an artifact.')
      const reason = type === 'artifact_held' ? (asked.reason ?? 'held') : null
      const [row] = await tx.run(setHold, [artifact.workspace_id, artifact.artifact_id, reason])
      if (!row) return refuseHold(artifact, reason)
      const { workspace_id, command_id, artifact_id } = artifact
      const payload = { target_type: 'artifact', target_id: artifact_id, artifact_id, reason: asked.reason ?? null }
      const who = { actor: by.actor, actorKind: by.kind, traceId: by.traceId, at: deps.now() }
      await appendEvents(tx, artifactLog, [
        { eventId: deps.newId(), type, payload, ...who, links: { workspace_id, command_id } },
      ])
      return accept(row)
    })
}

/** Nothing to do is no mistake; holding what is already in the archive is. */
function refuseHold(artifact: StoredArtifact, reason: string | null): Decision<StoredArtifact> {
  if (artifact.status !== 'archived' || artifact.hold_reason === reason) return accept(artifact)
  return refuse('artifacts.artifact.held', 'an archived artifact has no content left to hold')
}

export const holdArtifact = holder('artifact_held')
export const releaseArtifact = holder('artifact_released')
