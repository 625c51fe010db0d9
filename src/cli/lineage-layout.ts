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

/** Two are enough for pictures that a person still reads. */
const PASSES = 2

/** Columns from left to right, each from top to bottom. */
export function layerNodes({ nodes, edges }: Pick<Lineage, 'nodes' | 'edges'>): readonly (readonly LineageNode[])[] {
  const depth = depthsOf(nodes, edges)
  const columns: LineageNode[][] = []
  for (const node of nodes) (columns[depth.get(node.id) ?? 0] ??= []).push(node)
  const filled = columns.map((column) => column ?? [])
  for (let pass = 0; pass < PASSES; pass++) {
    for (const [index, column] of filled.entries()) {
      const before = new Map((filled[index - 1] ?? []).map(({ id }, place) => [id, place]))
      filled[index] = sortByMean(column, edges, before)
    }
  }
  return filled
}

/** The longest way from anything that came from nothing; a circle, which no honest lineage has, ends at the number of nodes. */
function depthsOf(nodes: readonly LineageNode[], edges: readonly LineageEdge[]): ReadonlyMap<string, number> {
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
  return depth
}

/** Beside the mean of what it came from, so that few lines cross. */
function sortByMean(
  column: readonly LineageNode[],
  edges: readonly LineageEdge[],
  before: ReadonlyMap<string, number>,
): LineageNode[] {
  const meanOf = ({ id }: LineageNode) => {
    const places = edges.flatMap(({ from, to }) => (to === id ? (before.get(from) ?? []) : []))
    return places.length === 0
      ? Number.POSITIVE_INFINITY
      : places.reduce((sum, place) => sum + place, 0) / places.length
  }
  const means = new Map(column.map((node) => [node.id, meanOf(node)]))
  const mean = ({ id }: LineageNode) => means.get(id) ?? 0
  return column.toSorted((a, b) => (mean(a) === mean(b) ? (a.id < b.id ? -1 : 1) : mean(a) - mean(b)))
}
