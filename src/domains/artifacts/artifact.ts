/** An artifact: its row with the JSON columns, its table and transitions, and who may read it. */
import type { Actor, ConcordActor } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { artifactMachine, type ArtifactState } from '#kernel/machines/artifact'
import type { Decision } from '#kernel/refusal'
import { defineTable, type Once, type Sql, statement, type TransitionResult, type Tx } from '#store'
import type { RowOf } from '#store/rows'
import type { ArtifactType, ContentClass, SharingRule } from './artifact-type.ts'
import type { ArtifactDeps, ArtifactReader } from './deps.ts'
import { type ArtifactEventType, artifactLog } from './events.ts'

/** The kinds of sources. Memories and datasets are rows of other domains, so their ids are not checked here. */
export const sourceKinds = ['artifact', 'effect', 'memory', 'dataset'] as const
export type SourceKind = (typeof sourceKinds)[number]
export type Source = { readonly kind: SourceKind; readonly id: string }

export type Lineage = {
  readonly command_id: string
  readonly effect_id?: string
  readonly agent_run_id?: string
  readonly swarm_run_id?: string
  readonly sources: readonly Source[]
}

/** The keys that Concord writes; the rest is metadata of the writer. */
export type ArtifactMetadata = JsonObject & {
  readonly type_version: string
  readonly data_class: ContentClass
  readonly title?: string
  readonly file_name?: string
}

/** One destination and the command that published there. Rows from before these fields existed hold null. */
export type Publication = {
  readonly destination: string
  readonly command_id: string | null
  readonly domain_effect_id: string | null
  readonly published_at: string | null
}

export type StoredArtifact = Omit<
  RowOf<
    'concord.artifacts',
    {
      readonly metadata: ArtifactMetadata
      readonly lineage: Lineage
      /** The current publications, oldest first; `published_to` is the newest. */
      readonly publications: readonly Publication[]
    }
  >,
  'labels'
> & {
  /** Passed on by the database; absent in a row that this process is about to write. */
  readonly labels?: readonly string[]
}

export const artifactVisibilities = ['private', 'workspace'] as const
export type ArtifactVisibility = (typeof artifactVisibilities)[number]

type Seen = Pick<StoredArtifact, 'visibility' | 'created_by'>

/** The value of `created_by` for a user. */
export function creatorIdOf({ userId }: Pick<ArtifactReader, 'userId'>): string {
  return `user:${userId}`
}

export function isSeenBy({ visibility, created_by }: Seen, creatorId: string): boolean {
  return visibility === 'workspace' || created_by === creatorId
}

export function mayRead(artifact: Seen, reader: ArtifactReader): boolean {
  return reader.role === 'admin' || isSeenBy(artifact, creatorIdOf(reader))
}

/** Returns the stricter rule of the type and the data class. Inside the organisation everything is allowed. */
export function decideSharing(
  { external_sharing }: Pick<ArtifactType, 'external_sharing'>,
  dataClass: ContentClass,
  isOutside: boolean,
): SharingRule {
  if (!isOutside) return 'allow'
  switch (dataClass) {
    case 'pii':
    case 'payment':
    case 'secret':
      return 'deny'
    case 'internal':
    case 'confidential':
      return external_sharing === 'deny' ? 'deny' : 'require_approval'
    case 'public':
      return external_sharing
  }
}

export const artifactTable = defineTable<StoredArtifact>()<ArtifactState, ConcordActor, ArtifactEventType>({
  name: 'concord.artifacts',
  noun: 'artifact',
  id: 'artifact_id',
  tenant: 'workspace_id',
  machine: artifactMachine,
  state: 'status',
  settable: { location: 'text', superseded_by: 'uuid', published_to: 'text', publications: 'jsonb' },
  guards: { expired: 't.hold_reason is null and t.retain_until <= statement_timestamp()' },
  once: {
    columns: {
      artifact_id: 'uuid',
      command_id: 'uuid',
      artifact_type: 'text',
      location: 'text',
      version: 'integer',
      status: 'text',
      metadata: 'jsonb',
      lineage: 'jsonb',
      created_by: 'text',
      created_at: 'timestamptz',
      agent_run_id: 'uuid',
      swarm_run_id: 'uuid',
      checksum: 'text',
      idempotency_key: 'text',
      workspace_id: 'uuid',
      domain_effect_id: 'uuid',
      content_type: 'text',
      size_bytes: 'integer',
      visibility: 'text',
      published_to: 'text',
      publications: 'jsonb',
      superseded_by: 'uuid',
      retain_until: 'timestamptz',
      hold_reason: 'text',
    },
    key: ['idempotency_key', 'workspace_id'],
    content: ['command_id', 'artifact_type', 'checksum'],
  },
  log: artifactLog,
  links: ['workspace_id', 'command_id', 'agent_run_id', 'swarm_run_id'],
  about: ({ artifact_id }) => ({ artifact_id }),
})

const listByIds = statement<StoredArtifact>(
  'artifacts_list_by_ids',
  `select t.* from concord.artifacts t where t.workspace_id = $1 and t.artifact_id = any($2::uuid[])`,
)

/** Taken by the writer of a row that needs the blob and by the sweep that removes the blob. `$1` is the location. */
const lockBlobSql = statement('artifacts_lock_blob', `select pg_advisory_xact_lock(hashtextextended($1, 1095914573))`)

const isNeededSql = statement<{ readonly location: string }>(
  'artifacts_is_needed',
  `select distinct t.location from concord.artifacts t where t.location = any($1::text[]) and t.location not like 'data:%'`,
)

export const findArtifact = artifactTable.find

export function listArtifactsById(sql: Sql, workspaceId: string, ids: readonly string[]): Promise<StoredArtifact[]> {
  return ids.length === 0 ? Promise.resolve([]) : sql.run(listByIds, [workspaceId, ids])
}

export async function lockBlob(tx: Tx, location: string): Promise<void> {
  await tx.run(lockBlobSql, [location])
}

export async function listNeeded(sql: Sql, locations: readonly string[]): Promise<ReadonlySet<string>> {
  return new Set((await sql.run(isNeededSql, [locations])).map(({ location }) => location))
}

/** Inserts the row and its `artifact_created` in one statement. Returns the existing row for a known key. */
export function insertArtifact(
  tx: Tx,
  deps: Pick<ArtifactDeps, 'newId'>,
  by: Actor,
  row: StoredArtifact,
): Promise<Decision<Once<StoredArtifact>>> {
  const { artifact_type, version, checksum, size_bytes } = row
  const payload = { artifact_type, version, checksum, size_bytes }
  const created = { type: 'artifact_created', at: row.created_at, newId: deps.newId, payload } as const
  return artifactTable.insertOnce(tx, row, by, created)
}

type Moving = {
  readonly set?: Readonly<Record<string, unknown>>
  readonly guards?: readonly string[]
  readonly payload?: Readonly<Record<string, unknown>>
}

export function moveArtifact(
  tx: Tx,
  { now, newId }: Pick<ArtifactDeps, 'newId' | 'now'>,
  by: Actor,
  artifact: StoredArtifact,
  to: ArtifactState,
  moving: Moving = {},
): Promise<TransitionResult<StoredArtifact>> {
  const payload = { ...moving.payload, artifact_type: artifact.artifact_type }
  return artifactTable.transition(tx, artifact, to, by, { ...moving, at: now(), newId, payload })
}
