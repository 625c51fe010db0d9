/** Finds one cycle of a cyclic graph: the shortest within a fixed amount of work, and always the same one. */
import type { GraphIndex, GraphNode } from './graph.ts'

/**
 * Searching from every node is quadratic. After this many edges, about 60 ms, the best cycle so far is the answer; a graph of
 * 300 nodes and 3,000 edges is still searched completely.
 */
const EDGES_MAX = 1_000_000

/** Returns the nodes of the cycle, each waiting for the one before it, the first for the last; starts at the node that sorts first. */
export function findCycle(index: GraphIndex): readonly GraphNode[] {
  const core = findCore(index)
  const search: Search = {
    core,
    downstream: index.downstream,
    cameFrom: new Int32Array(core.length),
    seenBy: new Int32Array(core.length).fill(-1),
    edgesLeft: EDGES_MAX,
  }
  let best = walkBack(index, core)
  for (let start = 0; start < core.length && best.length > 1 && search.edgesLeft > 0; start++) {
    if (core[start] === 1) best = searchFrom(search, start, best.length - 1) ?? best
  }
  return fromFirst(best).flatMap((position) => index.nodes[position] ?? [])
}

/** Marks with 1 the nodes that remain after repeatedly removing every node without incoming or without outgoing edges. */
function findCore({ upstream, downstream }: GraphIndex): Uint8Array {
  const core = new Uint8Array(upstream.length).fill(1)
  for (const [behind, ahead] of [
    [upstream, downstream],
    [downstream, upstream],
  ] as const) {
    const degree = Int32Array.from(behind, (list) => list.reduce((count, other) => count + (core[other] ?? 0), 0))
    const loose: number[] = []
    for (const [position, count] of degree.entries()) if (count === 0 && core[position] === 1) loose.push(position)
    for (let position = loose.pop(); position !== undefined; position = loose.pop()) {
      core[position] = 0
      for (const other of ahead[position] ?? []) {
        const left = (degree[other] ?? 0) - 1
        degree[other] = left
        if (left === 0 && core[other] === 1) loose.push(other)
      }
    }
  }
  return core
}

/** Inside the core every node waits for another core node, so walking back must meet a node twice. */
function walkBack({ upstream }: GraphIndex, core: Uint8Array): readonly number[] {
  const met = new Map<number, number>()
  const path: number[] = []
  let at: number | undefined = core.indexOf(1)
  while (at !== undefined && at >= 0 && !met.has(at)) {
    met.set(at, path.length)
    path.push(at)
    at = upstream[at]?.find((before) => core[before] === 1)
  }
  return path.slice(met.get(at ?? -1) ?? path.length).reverse()
}

type Search = {
  readonly core: Uint8Array
  readonly downstream: GraphIndex['downstream']
  readonly cameFrom: Int32Array
  /** The start whose search saw the node last: saves clearing a list for each start. */
  readonly seenBy: Int32Array
  edgesLeft: number
}

/** Searches breadth first from `start` back to `start`, at most `longest` nodes long. */
function searchFrom(search: Search, start: number, longest: number): readonly number[] | undefined {
  const { core, downstream, cameFrom, seenBy } = search
  let layer = [start]
  for (let length = 1; length <= longest && layer.length > 0; length++) {
    const next: number[] = []
    for (const position of layer) {
      for (const after of downstream[position] ?? []) {
        if (--search.edgesLeft <= 0) return undefined
        if (after === start) return trace(cameFrom, start, position)
        if (core[after] === 0 || seenBy[after] === start) continue
        seenBy[after] = start
        cameFrom[after] = position
        next.push(after)
      }
    }
    layer = next
  }
  return undefined
}

function trace(cameFrom: Int32Array, start: number, end: number): readonly number[] {
  const path = [end]
  for (let at = end; at !== start; ) {
    at = cameFrom[at] ?? start
    path.push(at)
  }
  return path.reverse()
}

function fromFirst(cycle: readonly number[]): readonly number[] {
  const first = cycle.reduce((best, position, at) => (position < (cycle[best] ?? position) ? at : best), 0)
  return [...cycle.slice(first), ...cycle.slice(0, first)]
}
