/** Validates and indexes a graph of named nodes: a checked graph has no cycle and no missing name. */
import { KernelFault } from '../errors.ts'
import { nearest } from '../nearest.ts'
import { accept, type Decision, quote, type Refusal, refuse } from '../refusal.ts'
import type { TriggerRule } from './readiness.ts'

export type GraphNode = {
  readonly id: string
  /** The stable order key: nodes are listed by sequence, ties by id. */
  readonly sequence: number
  /** The nodes that this one waits for. */
  readonly dependsOn: readonly string[]
  /** Default: `all_success`. */
  readonly rule?: TriggerRule
  /** The display name; default: the id. */
  readonly name?: string
}

/** Edges as indexes into `nodes`: a walk over 100,000 nodes touches numbers, not maps of strings. */
export type GraphIndex = {
  /** In stable order, whatever the order of the input. */
  readonly nodes: readonly GraphNode[]
  readonly positions: ReadonlyMap<string, number>
  /** Both lists are in stable order. */
  readonly upstream: readonly (readonly number[])[]
  readonly downstream: readonly (readonly number[])[]
}

/** A checked graph; `order` is a topological order, the smallest one by the stable order. */
export type Graph = GraphIndex & { readonly order: readonly number[] }

export const NODES_MAX = 100_000
/** A refusal lists this many unknown names, or steps of a cycle, before it gives the number of the rest. */
const SHOWN_MAX = 12

export function validateGraph(nodes: readonly GraphNode[]): Decision<Graph> {
  if (nodes.length > NODES_MAX) {
    return refuse('dag_size', `The graph has ${nodes.length} nodes; the limit is ${NODES_MAX}.`, {
      facts: { nodes: nodes.length, limit: NODES_MAX },
    })
  }
  const sorted = sortNodes(nodes)
  const wrong = findDuplicate(sorted) ?? findBadEdge(sorted) ?? findUnknown(sorted)
  if (wrong) return wrong
  const index = indexGraph(sorted)
  const order = stableOrder(index)
  if (order.length === sorted.length) return accept({ ...index, order })
  return refuseCycle(findCycle(index))
}

/** Sorts by sequence, then by the code units of the id, so that no locale changes an order. */
export function sortNodes(nodes: readonly GraphNode[]): readonly GraphNode[] {
  return nodes.toSorted((a, b) => a.sequence - b.sequence || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0))
}

/** Indexes sorted nodes whose names are known to exist. */
export function indexGraph(nodes: readonly GraphNode[]): GraphIndex {
  const positions = new Map(nodes.map((node, position) => [node.id, position]))
  const downstream: number[][] = nodes.map(() => [])
  const upstream = nodes.map((node, position) => {
    const before = node.dependsOn.map((id) => positions.get(id) ?? -1).toSorted((a, b) => a - b)
    for (const source of before) downstream[source]?.push(position)
    return before
  })
  return { nodes, positions, upstream, downstream }
}

/** A name for a sentence: at most 64 characters, without invisible ones. */
export function show(name: string): string {
  return quote(name).slice(1, -1)
}

function findDuplicate(nodes: readonly GraphNode[]): Refusal | undefined {
  const seen = new Set<string>()
  for (const { id } of nodes) {
    if (seen.has(id)) return refuse('dag.node.duplicate', `Two nodes are called ${quote(id)}.`, { path: show(id) })
    seen.add(id)
  }
  return undefined
}

function findBadEdge(nodes: readonly GraphNode[]): Refusal | undefined {
  for (const node of nodes) {
    const seen = new Set<string>()
    for (const id of node.dependsOn) {
      const wrong = id === node.id ? 'depends on itself' : seen.has(id) ? `depends on ${quote(id)} twice` : undefined
      if (wrong) return refuse('dag_edge', `${quote(node.id)} ${wrong}.`, { path: `${show(node.id)}.depends_on` })
      seen.add(id)
    }
  }
  return undefined
}

function findUnknown(nodes: readonly GraphNode[]): Refusal | undefined {
  const known = new Set(nodes.map((node) => node.id))
  const unknown = nodes.flatMap((node) =>
    node.dependsOn.filter((ref) => !known.has(ref)).map((ref) => ({ node: node.id, ref })),
  )
  const [first] = unknown
  if (!first) return undefined
  const near = nearest(first.ref, known)
  return refuse('dag_unknown_ref', `${quote(first.node)} depends on ${quote(first.ref)}, which does not exist.`, {
    path: `${show(first.node)}.depends_on`,
    ...(near === undefined ? {} : { hint: `Did you mean ${quote(near)}?` }),
    facts: {
      unknown: unknown.slice(0, SHOWN_MAX).map(({ node, ref }) => ({ node: show(node), ref: show(ref) })),
      count: unknown.length,
      ...(near === undefined ? {} : { nearest: near }),
    },
  })
}

function refuseCycle(cycle: readonly GraphNode[]): Refusal {
  const names = cycle.map((node) => show(node.id))
  const shown = names.slice(0, SHOWN_MAX)
  const more = names.length - shown.length
  const path = [...shown, ...(more > 0 ? [`… ${more} more`] : []), ...names.slice(0, 1)].join(' → ')
  return refuse('dag_cycle', `The graph has a cycle: ${path}.`, {
    hint: 'An arrow leads from a node to one that waits for it. Remove one of the arrows.',
    facts: { cycle: shown, length: names.length },
  })
}

/**
 * Searching from every node is quadratic. After this many edges, about 60 ms, the best cycle so far is the answer; a graph of
 * 300 nodes and 3,000 edges is still searched completely.
 */
const EDGES_MAX = 1_000_000

/**
 * Finds the shortest cycle within a fixed amount of work; the same graph always yields the same cycle. Each node waits for the
 * one before it, the first for the last. Starts at the node that sorts first.
 */
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

/** Inside the core every node waits for another core node, so walking back must reach a node twice. */
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

/** Kahn's sort in one call: the topological order that is smallest by the stable order, or the part that a cycle leaves. */
export function stableOrder({ upstream, downstream }: GraphIndex): readonly number[] {
  const remaining = upstream.map((before) => before.length)
  const order: number[] = []
  const ready: number[] = []
  for (const [position, count] of remaining.entries()) if (count === 0) push(ready, position)
  for (let next = pop(ready); next !== undefined; next = pop(ready)) {
    order.push(next)
    for (const after of downstream[next] ?? []) {
      const left = (remaining[after] ?? 0) - 1
      remaining[after] = left
      if (left === 0) push(ready, after)
    }
  }
  return order
}

/** A binary heap, smallest index first: a plain queue would let the order of completion break ties. */
function push(heap: number[], value: number): void {
  let at = heap.length
  heap.push(value)
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent] ?? value
    if (above <= value) break
    heap[at] = above
    at = parent
  }
  heap[at] = value
}

function pop(heap: number[]): number | undefined {
  const top = heap[0]
  const moved = heap.pop()
  if (heap.length === 0 || moved === undefined) return top
  let at = 0
  for (;;) {
    const left = 2 * at + 1
    const right = left + 1
    const child = (heap[right] ?? Infinity) < (heap[left] ?? Infinity) ? right : left
    const below = heap[child]
    if (below === undefined || below >= moved) break
    heap[at] = below
    at = child
  }
  heap[at] = moved
  return top
}

/** Kahn's sort step by step: hands out ready nodes and accepts finished ones. Lives for one tick; the rows are authoritative. */
export class TopologicalSorter {
  #nodes: GraphNode[] = []
  #graph: Graph | undefined
  #remaining: number[] = []
  #ready: number[] = []
  #handedOut = new Set<number>()
  #doneCount = 0

  /** Call before `prepare`, in any order: a predecessor may be added after the node that names it. */
  add(node: { readonly id: string; readonly sequence: number }, predecessors: readonly string[] = []): void {
    if (this.#graph) throw new KernelFault('dag.sorter.prepared', `The node ${node.id} was added after prepare.`)
    this.#nodes.push({ id: node.id, sequence: node.sequence, dependsOn: predecessors })
  }

  /** Throws on a cycle, with its path: callers validate first, so a cycle here is a fault. */
  prepare(): void {
    const decision = validateGraph(this.#nodes)
    if (!decision.ok) throw new KernelFault(decision.code, decision.reason, decision.facts)
    this.#graph = decision.value
    this.#remaining = decision.value.upstream.map((before) => before.length)
    this.#ready = [...this.#remaining.keys()].filter((position) => this.#remaining[position] === 0)
  }

  /** Returns the nodes that became ready since the last call, by sequence, then id; each node once. */
  getReady(): readonly string[] {
    const graph = this.#prepared()
    const ready = this.#ready.toSorted((a, b) => a - b)
    this.#ready = []
    for (const position of ready) this.#handedOut.add(position)
    return ready.flatMap((position) => graph.nodes[position]?.id ?? [])
  }

  /** Accepts only nodes that `getReady` handed out, once each. */
  done(...ids: readonly string[]): void {
    const graph = this.#prepared()
    for (const id of ids) {
      const position = graph.positions.get(id)
      if (position === undefined || !this.#handedOut.delete(position)) {
        throw new KernelFault('dag.sorter.not_handed_out', `The node ${id} was not handed out.`)
      }
      this.#doneCount++
      for (const after of graph.downstream[position] ?? []) {
        const left = (this.#remaining[after] ?? 0) - 1
        this.#remaining[after] = left
        if (left === 0) this.#ready.push(after)
      }
    }
  }

  /** True while a node is ready or handed out; false for an empty graph. */
  isActive(): boolean {
    return this.#doneCount < this.#prepared().nodes.length
  }

  #prepared(): Graph {
    if (!this.#graph) throw new KernelFault('dag.sorter.not_prepared', 'Call prepare first.')
    return this.#graph
  }
}
