/** The picture of where an artifact comes from and what became of it: nodes and edges, both ways, as far as the reader may see. */
import { encodeId } from '#kernel/ids'
import { accept, type Decision } from '#kernel/refusal'
import { type Db, scoped, type Tx } from '#store'
import { listArtifactsById } from './artifact-repository.ts'
import type { Source, StoredArtifact } from './artifact-row.ts'
import { mayRead } from './may-read.ts'
import { getArtifact } from './read-artifacts.ts'
import { listProductsSql } from './sql/list-products.ts'
import type { Reader } from './deps.ts'

export const nodeKinds = ['artifact', 'command', 'effect', 'agent_run', 'swarm_run', 'memory', 'dataset'] as const
type NodeKind = (typeof nodeKinds)[number]

type LineageNode = {
  readonly id: string
  readonly kind: NodeKind
  readonly label: string
  readonly status: string | null
  readonly version: number | null
}
/** From what was there first to what came of it. */
type LineageEdge = { readonly from: string; readonly to: string; readonly how: 'made' | 'source' | 'version' }
export type LineageGraph = {
  readonly root: string
  readonly nodes: readonly LineageNode[]
  readonly edges: readonly LineageEdge[]
  /** False: there is more than could be shown. */
  readonly is_complete: boolean
}

const ARTIFACTS_MAX = 300
const STEPS_MAX = 20

export async function readLineage(
  db: Db,
  reader: Reader,
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

/** One question per generation, until nothing new comes or there is too much of it. */
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

/** Its sources, and the version that it replaced. */
const listOrigins: Look = async (tx, workspaceId, from) => {
  const sources = await listArtifactsById(
    tx,
    workspaceId,
    from.flatMap(({ lineage }) => idsOf(lineage.sources)),
  )
  const ids = from.map(({ artifact_id }) => artifact_id)
  return [...sources, ...(await tx.run(listProductsSql, [workspaceId, [], ids, ARTIFACTS_MAX]))]
}

/** What names it as a source, and the version that replaced it. */
const listProducts: Look = async (tx, workspaceId, from) => {
  const patterns = from.map(({ artifact_id }) => ({ sources: [{ kind: 'artifact', id: artifact_id }] }))
  const values = [workspaceId, patterns.map((pattern) => JSON.stringify(pattern)), [], ARTIFACTS_MAX]
  const next = from.flatMap(({ superseded_by }) => (superseded_by === null ? [] : [superseded_by]))
  return [...(await tx.run(listProductsSql, values)), ...(await listArtifactsById(tx, workspaceId, next))]
}

/** Pure: the rows as nodes and edges, each once. */
function drawGraph(
  root: StoredArtifact,
  artifacts: readonly StoredArtifact[],
  reader: Reader,
  isComplete: boolean,
): LineageGraph {
  const nodes = new Map<string, LineageNode>()
  const edges = new Map<string, LineageEdge>()
  const put = (kind: NodeKind, uuid: string, label: string, more: Partial<LineageNode> = {}) => {
    const id = encodeId(kind, uuid)
    if (!nodes.has(id)) nodes.set(id, { id, kind, label, status: null, version: null, ...more })
    return id
  }
  const link = (from: string, to: string, how: LineageEdge['how']) => edges.set(`${from} ${to}`, { from, to, how })
  for (const artifact of artifacts) {
    const isSeen = mayRead(artifact, reader)
    const { status, version } = artifact
    put('artifact', artifact.artifact_id, isSeen ? labelOf(artifact) : 'private', isSeen ? { status, version } : {})
  }
  for (const artifact of artifacts) {
    const id = encodeId('artifact', artifact.artifact_id)
    const { lineage, superseded_by } = artifact
    if (superseded_by !== null) link(id, put('artifact', superseded_by, 'artifact'), 'version')
    // Of what a reader may not see he is told that it is there, and no more.
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
