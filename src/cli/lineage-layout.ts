/** Lays a lineage out in columns: whatever was there first stands left of what came of it. Pure, and the same every time. */
export type LineageNode = {
  readonly id: string
  readonly kind: string
  readonly label: string
  readonly status: string | null
  readonly version: number | null
}
export type LineageEdge = { readonly from: string; readonly to: string; readonly how: string }
export type Lineage = {
  readonly root: string
  readonly nodes: readonly LineageNode[]
  readonly edges: readonly LineageEdge[]
  readonly is_complete: boolean
}

/** Down, up, down and up again are enough for pictures that a person still reads. */
const PASSES = 4

type Depths = ReadonlyMap<string, number>

/** Columns from left to right, each from top to bottom. */
export function layerNodes(
  { nodes, edges }: Pick<Lineage, 'nodes' | 'edges'>,
  depth: Depths = depthsOf(nodes, edges),
): readonly (readonly LineageNode[])[] {
  const columns: LineageNode[][] = []
  for (const node of nodes.toSorted((a, b) => (a.id < b.id ? -1 : 1)))
    (columns[depth.get(node.id) ?? 0] ??= []).push(node)
  const filled = Array.from(columns, (column) => column ?? [])
  for (let pass = 0; pass < PASSES; pass++) {
    const isDown = pass % 2 === 0
    const order = [...filled.keys()]
    for (const index of isDown ? order : order.reverse()) {
      const beside = filled[isDown ? index - 1 : index + 1] ?? []
      filled[index] = sortByMean(filled[index] ?? [], edges, new Map(beside.map(({ id }, place) => [id, place])))
    }
  }
  return filled.filter((column) => column.length > 0)
}

/**
 * The same lineage with a way point in every column that an edge passes, so that a line has a place of its own between the
 * boxes instead of running through them. Way points have no label and the kind `way`. The depths come with it: measured
 * again with the way points in place, a node could move to another column and its lines lose their ways.
 */
export function layWays(lineage: Lineage): {
  readonly lineage: Lineage
  readonly ways: ReadonlyMap<string, readonly string[]>
  readonly depth: Depths
} {
  const depth = new Map(depthsOf(lineage.nodes, lineage.edges))
  const nodes = [...lineage.nodes]
  const ways = new Map<string, readonly string[]>()
  const edges = lineage.edges.flatMap((edge) => {
    const [start, end] = [depth.get(edge.from), depth.get(edge.to)]
    if (start === undefined || end === undefined || end - start < 2) return [edge]
    const points = Array.from({ length: end - start - 1 }, (_, step) => `${edge.from} ${edge.to} ${step}`)
    for (const [step, id] of points.entries()) {
      nodes.push({ id, kind: 'way', label: '', status: null, version: null })
      depth.set(id, start + step + 1)
    }
    ways.set(`${edge.from} ${edge.to}`, points)
    const stops = [edge.from, ...points, edge.to]
    return stops.slice(1).map((to, step) => ({ from: stops[step] ?? '', to, how: edge.how }))
  })
  return { lineage: { ...lineage, nodes, edges }, ways, depth }
}

/** The longest way from anything that came from nothing; a circle, which no honest lineage has, ends at the number of nodes. */
function depthsOf(nodes: readonly LineageNode[], edges: readonly LineageEdge[]): Depths {
  const depth = new Map(nodes.map(({ id }) => [id, 0]))
  for (let round = 0; round < nodes.length; round++) {
    let isDone = true
    for (const { from, to } of edges) {
      const [here, there] = [depth.get(from), depth.get(to)]
      if (here === undefined || there === undefined || there > here || here + 1 >= nodes.length) continue
      depth.set(to, here + 1)
      isDone = false
    }
    if (isDone) break
  }
  // What came from nothing stands right before the first thing that came of it: shorter lines.
  for (const { id } of nodes) {
    if (edges.some(({ to }) => to === id)) continue
    const after = edges.flatMap(({ from, to }) => (from === id ? (depth.get(to) ?? []) : []))
    if (after.length > 0) depth.set(id, Math.max(0, Math.min(...after) - 1))
  }
  return depth
}

/** Beside the mean of what it is tied to in the next column, so that few lines cross; what is tied to nothing there keeps its place. */
function sortByMean(
  column: readonly LineageNode[],
  edges: readonly LineageEdge[],
  beside: ReadonlyMap<string, number>,
): LineageNode[] {
  const means = new Map(
    column.map(({ id }, place) => {
      const tied = edges.flatMap(({ from, to }) =>
        to === id ? (beside.get(from) ?? []) : from === id ? (beside.get(to) ?? []) : [],
      )
      return [id, tied.length === 0 ? place : tied.reduce((sum, each) => sum + each, 0) / tied.length]
    }),
  )
  const mean = ({ id }: LineageNode) => means.get(id) ?? 0
  return column.toSorted((a, b) => mean(a) - mean(b))
}
