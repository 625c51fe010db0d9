/** Reads and writes of `concord.artifacts`; by id means by id and workspace, and a status changes through its machine only. */
import { artifactMachine, type ArtifactState } from '#kernel/machines/artifact'
import type { Decision } from '#kernel/refusal'
import {
  defineLookup,
  insertOnce,
  type Once,
  onceTable,
  rowType,
  type Sql,
  statement,
  storedMachine,
  transition,
  type TransitionResult,
  type Tx,
} from '#store'
import type { StoredArtifact } from './artifact-row.ts'
import { type ArtifactEventType, artifactLog } from './events.ts'
import type { Acting, ArtifactDeps } from './deps.ts'

const artifactRow = rowType<StoredArtifact>()
const links = {
  workspace_id: 'workspace_id',
  command_id: 'command_id',
  agent_run_id: 'agent_run_id',
  swarm_run_id: 'swarm_run_id',
}

export const artifactLookup = defineLookup({
  noun: 'artifact',
  table: 'concord.artifacts',
  id: 'artifact_id',
  tenant: 'workspace_id',
  row: artifactRow,
})

const storedArtifact = storedMachine({
  machine: artifactMachine,
  table: 'concord.artifacts',
  id: 'artifact_id',
  tenant: 'workspace_id',
  state: 'status',
  settable: { location: 'text', superseded_by: 'uuid', published_to: 'text', publications: 'jsonb' },
  guards: { expired: 't.hold_reason is null and t.retain_until <= statement_timestamp()' },
  log: { log: artifactLog, target: 'artifact', links },
  row: artifactRow,
})

const newArtifacts = onceTable<StoredArtifact>({
  table: 'concord.artifacts',
  id: 'artifact_id',
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
  log: { log: artifactLog, links },
  row: artifactRow,
})

const listByIds = statement<StoredArtifact>(
  'artifacts_list_by_ids',
  `select t.* from concord.artifacts t where t.workspace_id = $1 and t.artifact_id = any($2::uuid[])`,
)

/** Taken by who writes a row that needs the blob and by who removes the blob: `$1` is the location. */
const lockBlobSql = statement('artifacts_lock_blob', `select pg_advisory_xact_lock(hashtextextended($1, 1095914573))`)

const isNeededSql = statement<{ readonly location: string }>(
  'artifacts_is_needed',
  `select distinct t.location from concord.artifacts t where t.location = any($1::text[]) and t.location not like 'data:%'`,
)

export async function findArtifact(
  sql: Sql,
  workspaceId: string,
  artifactId: string,
): Promise<StoredArtifact | undefined> {
  const [row] = await sql.run(artifactLookup.statement, [artifactId, workspaceId])
  return row
}

export function listArtifactsById(sql: Sql, workspaceId: string, ids: readonly string[]): Promise<StoredArtifact[]> {
  return ids.length === 0 ? Promise.resolve([]) : sql.run(listByIds, [workspaceId, ids])
}

export async function lockBlob(tx: Tx, location: string): Promise<void> {
  await tx.run(lockBlobSql, [location])
}

export async function listNeeded(sql: Sql, locations: readonly string[]): Promise<ReadonlySet<string>> {
  return new Set((await sql.run(isNeededSql, [locations])).map(({ location }) => location))
}

/** The row and its `artifact_created` in one statement; the same key again gives the row that is there. */
export function insertArtifact(
  tx: Tx,
  deps: Pick<ArtifactDeps, 'newId'>,
  by: Acting,
  row: StoredArtifact,
): Promise<Decision<Once<StoredArtifact>>> {
  const created = {
    eventId: deps.newId(),
    type: 'artifact_created' as const,
    payload: {
      target_type: 'artifact',
      target_id: row.artifact_id,
      artifact_id: row.artifact_id,
      artifact_type: row.artifact_type,
      version: row.version,
      checksum: row.checksum,
      size_bytes: row.size_bytes,
    },
    actor: by.actor,
    actorKind: by.kind,
    traceId: by.traceId,
    at: row.created_at,
  }
  return insertOnce(tx, newArtifacts, row, [created])
}

export type MoveOptions = {
  readonly set?: Readonly<Record<string, unknown>>
  readonly guards?: readonly string[]
  readonly payload?: Readonly<Record<string, unknown>>
}

export function moveArtifact(
  tx: Tx,
  deps: Pick<ArtifactDeps, 'newId' | 'now'>,
  by: Acting,
  artifact: StoredArtifact,
  to: ArtifactState,
  { set, guards, payload = {} }: MoveOptions = {},
): Promise<TransitionResult<StoredArtifact>> {
  return transition<ArtifactState, Acting['kind'], ArtifactEventType, StoredArtifact>(
    tx,
    storedArtifact,
    artifact,
    to,
    {
      actor: by.actor,
      actorKind: by.kind,
      traceId: by.traceId,
      at: deps.now(),
      newId: deps.newId,
      ...(set ? { set } : {}),
      ...(guards ? { guards } : {}),
      payload: { ...payload, artifact_id: artifact.artifact_id, artifact_type: artifact.artifact_type },
    },
  )
}
