/** Validates and indexes a graph of named nodes: after that no code meets a cycle or a missing name. */
import { nearest } from '../nearest.ts'
import { accept, type Decision, quote, type Refusal, refuse } from '../refusal.ts'
import { findCycle } from './cycle.ts'
import { stableOrder } from './stable-order.ts'
import { type TriggerRule, triggerRules } from './trigger-rule.ts'

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

export function ruleOf(node: GraphNode): TriggerRule {
  return node.rule ?? triggerRules[0]
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
      if (wrong) return refuse('dag_edge', `${quote(node.id)} ${wrong}`, { path: `${show(node.id)}.depends_on` })
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
