/** The writer of an effect: stores content immediately and collects the rows, which are saved in the transaction of the effect's outcome. */
import type { Actor } from '#kernel/actor'
import { formatInstant } from '#kernel/instant'
import { decideMove } from '#kernel/machine'
import { artifactMachine } from '#kernel/machines/artifact'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { eventIdOf } from '#store'
import {
  artifactTable,
  type ArtifactMetadata,
  findArtifact,
  isSeenBy,
  type Lineage,
  listArtifactsById,
  type StoredArtifact,
} from './artifact.ts'
import { type ArtifactDraft, checkDraft, type CheckedDraft, checkSuccession } from './check-draft.ts'
import type { ArtifactDeps } from './deps.ts'
import { readArtifactText, storeContent } from './blob-store.ts'
import { type PendingWrite, publicationsWithout, saveArtifacts } from './save-artifacts.ts'

/** On whose behalf it writes. */
type WriterOwner = {
  readonly workspaceId: string
  readonly commandId: string
  readonly effectId: string | null
  readonly agentRunId: string | null
  readonly swarmRunId: string | null
  /** The requester of the work. The writer sees what this user may see. */
  readonly createdBy: string
  /** An administrator's work also sees private artifacts of others. */
  readonly seesAll?: boolean
  /** In a compensation: the effect that is undone. */
  readonly undoneEffectId?: string | null
  /** Unique in the workspace: the effect, or the command with a step. */
  readonly scope: string
}

export type WrittenArtifact = Pick<
  StoredArtifact,
  'artifact_id' | 'checksum' | 'size_bytes' | 'content_type' | 'version'
>

export type ArtifactWriter = {
  readonly writes: readonly PendingWrite[]
  /** Returns the id of the artifact with this name, written or not. */
  idOf(name: string): string
  /** `name` distinguishes the artifacts of one effect; the default is the type. */
  write(draft: ArtifactDraft, name?: string): Promise<Decision<WrittenArtifact>>
  find(artifactId: string): Promise<Decision<StoredArtifact>>
  text(artifactId: string): Promise<Decision<string>>
  publish(artifactId: string, destination: string): Promise<Decision<null>>
  /**
   * Withdraws a published artifact: everywhere when the undone effect made it, otherwise where that effect published it.
   * Cancels a draft or ready one. Leaves every other status unchanged.
   */
  withdraw(artifactId: string): Promise<Decision<null>>
}

const DAY_MS = 86_400_000

export function openArtifactWriter(deps: ArtifactDeps, owner: WriterOwner): ArtifactWriter {
  const writes: PendingWrite[] = []
  /** The rows that this writer has written or moved, in their future state. */
  const ahead = new Map<string, StoredArtifact>()

  const keyOf = (name: string) => `artifact:${owner.scope}:${name}`
  const idOf = (name: string) => eventIdOf('artifact', owner.workspaceId, keyOf(name))

  async function find(artifactId: string): Promise<Decision<StoredArtifact>> {
    const row = ahead.get(artifactId) ?? (await findArtifact(deps.db, owner.workspaceId, artifactId))
    return row && isVisible(row, owner) ? accept(row) : artifactTable.missing()
  }

  function publishTo(artifact: StoredArtifact, destination: string): Decision<null> {
    const isOneMore = artifact.status === 'published'
    const decided = isOneMore ? accept(null) : decideMove(artifactMachine, artifact.status, 'published', 'worker')
    if (!decided.ok) return decided
    const publication = {
      destination,
      command_id: owner.commandId,
      domain_effect_id: owner.effectId,
      published_at: formatInstant(deps.now()),
    }
    writes.push({ t: 'publish', artifactId: artifact.artifact_id, publication })
    const publications = isOneMore ? [...artifact.publications, publication] : [publication]
    ahead.set(artifact.artifact_id, { ...artifact, status: 'published', published_to: destination, publications })
    return accept(null)
  }

  function takeBack(artifact: StoredArtifact): Decision<null> {
    const { artifact_id: artifactId, publications } = artifact
    const undone = owner.undoneEffectId ?? null
    const effectId = undone === artifact.domain_effect_id ? null : undone
    writes.push({ t: 'withdraw', artifactId, effectId })
    const left = effectId === null ? [] : publicationsWithout(publications, effectId)
    ahead.set(artifactId, { ...artifact, status: left.length > 0 ? 'published' : 'unpublished', publications: left })
    return accept(null)
  }

  return {
    writes,
    idOf,
    find,
    async write(draft, name = draft.type) {
      const key = keyOf(name)
      if (writes.some((write) => write.t === 'write' && write.row.idempotency_key === key))
        return refuse('artifacts.draft.repeated', `An artifact named ${quote(name)} is already written.`, {
          path: 'name',
          hint: 'Give each artifact of an effect its own name.',
        })
      const type = deps.types.get(draft.type)
      if (!type.ok) return type
      const checked = checkDraft(type.value, draft)
      if (!checked.ok) return checked
      const known = await checkSources(deps, owner, checked.value, ahead)
      if (!known.ok) return known
      const before = draft.supersedes === undefined ? undefined : await find(draft.supersedes)
      if (before && !before.ok) return before
      const follows = before ? checkFollows(checked.value, before.value) : accept(null)
      if (!follows.ok) return follows
      const located = await storeContent(deps, checked.value)
      if (!located.ok) return located
      const row: StoredArtifact = {
        ...located.value,
        ...rowOf(owner, draft, checked.value, deps.now()),
        artifact_id: idOf(name),
        idempotency_key: key,
        version: (before?.value.version ?? 0) + 1,
      }
      writes.push({ t: 'write', row, isDraft: draft.is_draft ?? false, supersedes: draft.supersedes })
      ahead.set(row.artifact_id, { ...row, status: draft.is_draft ? 'draft' : 'ready' })
      const { artifact_id, checksum, size_bytes, content_type, version } = row
      return accept({ artifact_id, checksum, size_bytes, content_type, version })
    },
    async text(artifactId) {
      const found = await find(artifactId)
      return found.ok ? readArtifactText(deps, found.value) : found
    },
    async publish(artifactId, destination) {
      const found = await find(artifactId)
      return found.ok ? publishTo(found.value, destination) : found
    },
    async withdraw(artifactId) {
      const found = await find(artifactId)
      if (!found.ok) return found
      const { status } = found.value
      if (status === 'published') return takeBack(found.value)
      if (status !== 'draft' && status !== 'ready') return accept(null)
      writes.push({ t: 'cancel', artifactId })
      ahead.set(artifactId, { ...found.value, status: 'cancelled' })
      return accept(null)
    },
  }
}

function isVisible(row: StoredArtifact, { createdBy, seesAll = false }: WriterOwner): boolean {
  return seesAll || isSeenBy(row, createdBy)
}

/** Every source artifact must exist in this workspace and be visible to the requester (T8). */
async function checkSources(
  deps: ArtifactDeps,
  owner: WriterOwner,
  { sources }: CheckedDraft,
  ahead: ReadonlyMap<string, StoredArtifact>,
): Promise<Decision<null>> {
  const ids = sources.filter(({ kind, id }) => kind === 'artifact' && !ahead.has(id)).map(({ id }) => id)
  const rows = await listArtifactsById(deps.db, owner.workspaceId, ids)
  const seen = new Set(rows.filter((row) => isVisible(row, owner)).map(({ artifact_id }) => artifact_id))
  const missing = ids.find((id) => !seen.has(id))
  if (missing === undefined) return accept(null)
  const index = sources.findIndex(({ id }) => id === missing)
  return refuse('artifacts.lineage.source_unknown', 'Source artifact not found.', {
    path: `sources[${index}]`,
  })
}

function checkFollows({ type }: CheckedDraft, before: StoredArtifact): Decision<unknown> {
  const succession = checkSuccession(type, before)
  return succession.ok ? decideMove(artifactMachine, before.status, 'superseded', 'worker') : succession
}

type Described = Omit<
  StoredArtifact,
  'artifact_id' | 'idempotency_key' | 'version' | 'location' | 'checksum' | 'size_bytes'
>

function rowOf(owner: WriterOwner, draft: ArtifactDraft, checked: CheckedDraft, at: Date): Described {
  const { type, contentType, dataClass, sources } = checked
  const lineage: Lineage = {
    command_id: owner.commandId,
    ...(owner.effectId === null ? {} : { effect_id: owner.effectId }),
    ...(owner.agentRunId === null ? {} : { agent_run_id: owner.agentRunId }),
    ...(owner.swarmRunId === null ? {} : { swarm_run_id: owner.swarmRunId }),
    sources,
  }
  const metadata: ArtifactMetadata = {
    ...draft.metadata,
    ...(draft.title === undefined ? {} : { title: draft.title }),
    ...(draft.file_name === undefined ? {} : { file_name: draft.file_name }),
    type_version: type.version,
    data_class: dataClass,
  }
  return {
    command_id: owner.commandId,
    artifact_type: type.name,
    status: 'draft',
    metadata,
    lineage,
    created_by: owner.createdBy,
    created_at: at,
    agent_run_id: owner.agentRunId,
    swarm_run_id: owner.swarmRunId,
    workspace_id: owner.workspaceId,
    domain_effect_id: owner.effectId,
    content_type: contentType,
    visibility: type.visibility,
    published_to: null,
    publications: [],
    superseded_by: null,
    retain_until: type.retention_days === null ? null : new Date(at.getTime() + type.retention_days * DAY_MS),
    hold_reason: null,
  }
}

export type WriteArtifact = ArtifactDraft & {
  readonly workspaceId: string
  readonly commandId: string
  readonly agentRunId?: string
  readonly swarmRunId?: string
  readonly createdBy: string
  /** Distinguishes the steps of one command. */
  readonly step: string
}

export async function writeArtifact(
  deps: ArtifactDeps,
  by: Actor,
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
  // A replay neither replaces the previous version a second time nor stores the content again.
  if (again) return accept(again)
  const written = await writer.write(draft)
  if (!written.ok) return written
  const { artifact_id } = written.value
  return deps.db.transaction(async (tx) => {
    await saveArtifacts(tx, deps, by, workspaceId, writer.writes)
    const row = await findArtifact(tx, workspaceId, artifact_id)
    return row ? accept(row) : artifactTable.missing()
  })
}
