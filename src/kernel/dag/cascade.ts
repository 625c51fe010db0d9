/** Computes the consequences of one ended node: the pending nodes that are skipped, and the decrements of counters. */
import { KernelFault } from '../errors.ts'
import { type Graph, ruleOf } from './graph.ts'
import { type States, stateOf } from './readiness.ts'
import { type EndState, isEndState, judgeUpstream } from './trigger-rule.ts'

export type Skip = {
  readonly id: string
  /** The dependency whose end made it unreachable, and that end. */
  readonly because: string
  readonly state: EndState
}

export type Decrement = { readonly id: string; readonly by: number }

export type Cascade = {
  /** In the order in which they follow from each other; ties in stable order. */
  readonly skips: readonly Skip[]
  /** For remaining pending nodes: the decrement of `remaining`; a node that reaches zero is ready. In stable order. */
  readonly decrements: readonly Decrement[]
}

/**
 * `states` already contains the end of `endedId` but none of its consequences. Visits only the edges that leave the ended node
 * and the skipped ones: O(out-degree) for each, whatever the size of the graph.
 */
export function planCascade(graph: Graph, states: States, endedId: string): Cascade {
  const start = graph.positions.get(endedId)
  const end = stateOf(states, endedId)
  if (start === undefined || !isEndState(end))
    throw new KernelFault('dag.cascade.not_ended', `The node ${endedId} has not ended.`)
  const skips: Skip[] = []
  const skipped = new Set<number>()
  const falls = new Map<number, number>()
  const ended: { position: number; id: string; end: EndState }[] = [{ position: start, id: endedId, end }]
  for (const source of ended) {
    for (const position of graph.downstream[source.position] ?? []) {
      const node = graph.nodes[position]
      if (!node || skipped.has(position) || stateOf(states, node.id) !== 'pending') continue
      const verdict = judgeUpstream(ruleOf(node), source.end)
      if (verdict === 'satisfies') falls.set(position, (falls.get(position) ?? 0) + 1)
      if (verdict !== 'breaks') continue
      skipped.add(position)
      skips.push({ id: node.id, because: source.id, state: source.end })
      ended.push({ position, id: node.id, end: 'skipped' })
    }
  }
  const decrements = [...falls]
    .toSorted(([a], [b]) => a - b)
    .flatMap(([position, by]) => {
      const node = graph.nodes[position]
      return node ? [{ id: node.id, by }] : []
    })
  return { skips, decrements }
}
