/** Reads artifacts within a workspace and within the reader's access: one, a page, and the lineage of one. */
import { encodeId } from '#kernel/ids'
import type { ArtifactState } from '#kernel/machines/artifact'
import { accept, type Decision } from '#kernel/refusal'
import { cutPage, type Db, type Paged, pageText, scoped, type Sql, statement, type Tx } from '#store'
import { artifactTable, listArtifactsById, mayRead, creatorIdOf, type Source, type StoredArtifact } from './artifact.ts'
import type { LineageGraph } from './contract.ts'
import type { ArtifactReader } from './deps.ts'

type ListedArtifact = StoredArtifact & Paged & { readonly created_text: string }

/** Current rows and archived rows have separate indexes, so each has its own statement. */
function listing(name: string, condition: string) {
  return statement<ListedArtifact>(
    name,
    pageText(`select t.*, t.created_at::text as created_text
     from concord.artifacts t
    where t.workspace_id = $1::uuid and ${condition}
      and ($3 or t.visibility = 'workspace' or t.created_by = $2)
      and ($4::text is null or t.artifact_type = $4)
      and ($5::text is null or t.status = $5)
      and ($6::uuid is null or t.command_id = $6)
      and ($7::timestamptz is null or (t.created_at, t.artifact_id) < ($7::timestamptz, $8::uuid))
    order by t.created_at desc, t.artifact_id desc
    limit $9`),
  )
}

/** $1 workspace, $2 creator, $3 sees all, $4 type, $5 status, $6 command, $7 and $8 the end of the previous page, $9 limit. Null means any. */
const listCurrentSql = listing('artifacts_list_current', `t.status <> 'archived'`)
const listArchivedSql = listing('artifacts_list_archived', `t.status = 'archived'`)

/** $1 workspace, $2 swarm run. Lists the finished artifacts of its agents, oldest first, without cancelled ones. */
const listSwarmArtifactsSql = statement<StoredArtifact>(
  'artifacts_list_swarm',
  `select t.* from concord.artifacts t
    where t.workspace_id = $1 and t.swarm_run_id = $2 and t.status in ('ready', 'published', 'unpublished')
    order by t.created_at, t.artifact_id`,
)

export async function getArtifact(
  db: Db,
  reader: ArtifactReader,
  workspaceId: string,
  artifactId: string,
): Promise<Decision<StoredArtifact>> {
  const scope = scoped(db, workspaceId)
  const found = await scope.read((tx) => artifactTable.find(tx, workspaceId, artifactId))
  // An artifact that is private to another user is reported as missing (T9).
  return found && mayRead(found, reader) ? accept(found) : artifactTable.missing()
}

type ListArtifacts = {
  readonly workspaceId: string
  readonly artifactType?: string | undefined
  /** All but archived by default. */
  readonly status?: ArtifactState | undefined
  readonly commandId?: string | undefined
  readonly after?: readonly string[] | undefined
  readonly limit: number
}

type ArtifactPage = {
  readonly items: readonly StoredArtifact[]
  readonly next: readonly string[] | undefined
}

export async function listArtifacts(db: Db, reader: ArtifactReader, query: ListArtifacts): Promise<ArtifactPage> {
  const [createdText = null, artifactId = null] = query.after ?? []
  const rows = await scoped(db, query.workspaceId).read((tx) =>
    tx.run(query.status === 'archived' ? listArchivedSql : listCurrentSql, [
      query.workspaceId,
      creatorIdOf(reader),
      reader.role === 'admin',
      query.artifactType ?? null,
      query.status ?? null,
      query.commandId ?? null,
      createdText,
      artifactId,
      // One extra row shows whether there is a next page.
      query.limit + 1,
    ]),
  )
  return cutPage(
    rows,
    query.limit,
    (row) => row,
    ({ created_text, artifact_id }) => [created_text, artifact_id],
  )
}

/** The input of a swarm's join: rows only, never messages. */
export function listSwarmArtifacts(
  sql: Sql,
  { workspaceId, swarmRunId }: { readonly workspaceId: string; readonly swarmRunId: string },
): Promise<StoredArtifact[]> {
  return sql.run(listSwarmArtifactsSql, [workspaceId, swarmRunId])
}

const madeFrom = (kind: string, id: string) =>
  `a.workspace_id = $1 and a.lineage @> jsonb_build_object('sources', jsonb_build_array(jsonb_build_object('kind', '${kind}', 'id', ${id})))`

/** The artifacts made from the given memories and commands, directly or through others, except those already emptied. */
const lineage = `with recursive line (artifact_id) as (
  (select a.artifact_id from unnest($2::uuid[]) as m (id) cross join lateral (
     select a.artifact_id from concord.artifacts a where ${madeFrom('memory', 'm.id::text')}) as a
   union select a.artifact_id from concord.artifacts a where a.workspace_id = $1 and a.command_id = any($3::uuid[])
   union select a.artifact_id from concord.domain_effects e cross join lateral (
     select a.artifact_id from concord.artifacts a where ${madeFrom('effect', 'e.domain_effect_id::text')}) as a
     where e.workspace_id = $1 and e.command_id = any($3::uuid[]))
  union
  select a.artifact_id from line cross join lateral (
    select a.artifact_id from concord.artifacts a where ${madeFrom('artifact', 'line.artifact_id::text')}) as a
)
select t.* from concord.artifacts t
 where t.workspace_id = $1 and t.artifact_id in (select line.artifact_id from line)
   and (t.location not like 'removed:%' or t.metadata - array['type_version', 'data_class'] <> '{}')
 order by t.artifact_id`

/** $1 workspace, $2 memories, $3 commands. */
export const listLineageSql = statement<StoredArtifact>('artifacts_list_lineage', lineage)

/** Locks the same rows, so that none is moved or held before the transaction ends. */
export const lockLineageSql = statement<StoredArtifact>('artifacts_lock_lineage', `${lineage} for update of t`)

/** $1 workspace, $2 patterns such as {"sources":[{"kind":"artifact","id":"…"}]}, $3 ids that may have replaced another, $4 limit. */
const listProductsSql = statement<StoredArtifact>(
  'artifacts_list_products',
  `select t.* from concord.artifacts t
    where t.workspace_id = $1 and (t.lineage @> any($2::jsonb[]) or t.superseded_by = any($3::uuid[]))
    order by t.created_at, t.artifact_id limit $4`,
)

type LineageNode = LineageGraph['nodes'][number]
/** From the origin to the product. */
type LineageEdge = LineageGraph['edges'][number]

const ARTIFACTS_MAX = 300
const STEPS_MAX = 20

export async function readLineage(
  db: Db,
  reader: ArtifactReader,
  workspaceId: string,
  artifactId: string,
): Promise<Decision<LineageGraph>> {
  const root = await getArtifact(db, reader, workspaceId, artifactId)
  if (!root.ok) return root
  return scoped(db, workspaceId).read(async (tx) => {
    const found = new Map([[root.value.artifact_id, root.value]])
    const up = await follow(tx, workspaceId, found, [root.value], listOrigins)
    const down = await follow(tx, workspaceId, found, [root.value], listProducts)
    return accept(drawGraph(root.value, [...found.values()], reader, up && down))
  })
}

type Look = (tx: Tx, workspaceId: string, from: readonly StoredArtifact[]) => Promise<readonly StoredArtifact[]>

/** Runs one query per generation until there are no new artifacts. Returns false when a limit is reached. */
async function follow(
  tx: Tx,
  workspaceId: string,
  found: Map<string, StoredArtifact>,
  start: readonly StoredArtifact[],
  look: Look,
): Promise<boolean> {
  let edge = start
  for (let step = 0; edge.length > 0; step++) {
    if (step === STEPS_MAX || found.size >= ARTIFACTS_MAX) return false
    const fresh = (await look(tx, workspaceId, edge)).filter(({ artifact_id }) => !found.has(artifact_id))
    for (const artifact of fresh) found.set(artifact.artifact_id, artifact)
    edge = fresh
  }
  return true
}

const idsOf = (sources: readonly Source[]) => sources.filter(({ kind }) => kind === 'artifact').map(({ id }) => id)

/** The sources, and the versions that were replaced. */
const listOrigins: Look = async (tx, workspaceId, from) => {
  const sources = await listArtifactsById(
    tx,
    workspaceId,
    from.flatMap(({ lineage }) => idsOf(lineage.sources)),
  )
  const ids = from.map(({ artifact_id }) => artifact_id)
  return [...sources, ...(await tx.run(listProductsSql, [workspaceId, [], ids, ARTIFACTS_MAX]))]
}

/** The artifacts that name these as a source, and the versions that replaced them. */
const listProducts: Look = async (tx, workspaceId, from) => {
  const patterns = from.map(({ artifact_id }) => ({ sources: [{ kind: 'artifact', id: artifact_id }] }))
  const values = [workspaceId, patterns.map((pattern) => JSON.stringify(pattern)), [], ARTIFACTS_MAX]
  const next = from.flatMap(({ superseded_by }) => (superseded_by === null ? [] : [superseded_by]))
  return [...(await tx.run(listProductsSql, values)), ...(await listArtifactsById(tx, workspaceId, next))]
}

/** Draws each row and each edge once. Pure. */
function drawGraph(
  root: StoredArtifact,
  artifacts: readonly StoredArtifact[],
  reader: ArtifactReader,
  isComplete: boolean,
): LineageGraph {
  const nodes = new Map<string, LineageNode>()
  const edges = new Map<string, LineageEdge>()
  const put = (kind: LineageNode['kind'], uuid: string, label: string, more: Partial<LineageNode> = {}) => {
    const id = encodeId(kind, uuid)
    if (!nodes.has(id)) nodes.set(id, { id, kind, label, status: null, version: null, ...more })
    return id
  }
  const link = (from: string, to: string, how: LineageEdge['how']) => edges.set(`${from} ${to}`, { from, to, how })
  for (const artifact of artifacts) {
    const isReadable = mayRead(artifact, reader)
    const { status, version } = artifact
    put(
      'artifact',
      artifact.artifact_id,
      isReadable ? labelOf(artifact) : 'private',
      isReadable ? { status, version } : {},
    )
  }
  for (const artifact of artifacts) {
    const id = encodeId('artifact', artifact.artifact_id)
    const { lineage, superseded_by } = artifact
    if (superseded_by !== null) link(id, put('artifact', superseded_by, 'artifact'), 'version')
    // Readers see that a private artifact exists, and nothing else about it.
    if (!mayRead(artifact, reader)) continue
    link(put('command', lineage.command_id, 'command'), id, 'made')
    if (lineage.effect_id !== undefined) link(put('effect', lineage.effect_id, 'effect'), id, 'made')
    if (lineage.agent_run_id !== undefined) link(put('agent_run', lineage.agent_run_id, 'agent run'), id, 'made')
    if (lineage.swarm_run_id !== undefined) link(put('swarm_run', lineage.swarm_run_id, 'swarm run'), id, 'made')
    for (const source of lineage.sources) link(put(source.kind, source.id, source.kind), id, 'source')
  }
  const all = { nodes: [...nodes.values()], edges: [...edges.values()] }
  return { root: encodeId('artifact', root.artifact_id), ...all, is_complete: isComplete }
}

function labelOf({ artifact_type, metadata }: StoredArtifact): string {
  return metadata.title ?? artifact_type
}

const listHeldSql = statement<{ command_id: string }>(
  'artifacts_list_held_commands',
  `select distinct t.command_id from concord.artifacts as t
where t.workspace_id = $1 and t.command_id = any($2::uuid[]) and t.hold_reason is not null`,
)

/** Returns the given commands that have a held artifact. */
export async function listCommandsOfHeldArtifacts(
  sql: Sql,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<readonly string[]> {
  const rows = await sql.run(listHeldSql, [workspaceId, commandIds])
  return rows.map(({ command_id }) => command_id)
}
