/** Decides from its upstream nodes whether a node may start, must wait, or can never start; stateless. */
import { type Graph, type GraphNode, ruleOf } from './graph.ts'
import { isEndState, judgeUpstream, type NodeState, type TriggerRule } from './trigger-rule.ts'

export type Upstream = { readonly id: string; readonly state: NodeState }

export type Readiness =
  | { readonly kind: 'ready'; readonly reason: string }
  /** `on`: the upstream nodes that have not ended. */
  | { readonly kind: 'waiting'; readonly on: readonly Upstream[]; readonly reason: string }
  /** The node must be skipped; `because`: the upstream nodes that broke its rule, in stable order. */
  | { readonly kind: 'unreachable'; readonly because: readonly Upstream[]; readonly reason: string }

/** A node that is not listed is `pending`. */
export type States = ReadonlyMap<string, NodeState>

export function decideReadiness(rule: TriggerRule, upstream: readonly Upstream[]): Readiness {
  const because = upstream.filter(({ state }) => judgeUpstream(rule, state) === 'breaks')
  const [first] = because
  if (first) return { kind: 'unreachable', because, reason: `${rule}: ${first.id} is ${first.state}` }
  const on = upstream.filter(({ state }) => judgeUpstream(rule, state) === 'holds')
  if (on.length > 0) return { kind: 'waiting', on, reason: `${rule}: ${on.length} of ${upstream.length} not ended` }
  if (upstream.length === 0) return { kind: 'ready', reason: 'nothing to wait for' }
  return { kind: 'ready', reason: rule === 'always' ? 'always: does not wait' : `${rule}: ${upstream.length} ended` }
}

/** Returns the upstream nodes of one node with their states, in stable order. */
export function listUpstream(graph: Graph, states: States, position: number): readonly Upstream[] {
  return (graph.upstream[position] ?? []).flatMap((before) => {
    const node = graph.nodes[before]
    return node ? [{ id: node.id, state: stateOf(states, node.id) }] : []
  })
}

/** Returns the pending nodes that may start now, in stable order: O(nodes + edges), for a tick, a repair or a test. */
export function listReady(graph: Graph, states: States): readonly GraphNode[] {
  return graph.nodes.filter(
    (node, position) =>
      stateOf(states, node.id) === 'pending' &&
      decideReadiness(ruleOf(node), listUpstream(graph, states, position)).kind === 'ready',
  )
}

/** Returns true when every node has ended, also for an empty graph. */
export function isSettled(graph: Graph, states: States): boolean {
  return graph.nodes.every((node) => isEndState(stateOf(states, node.id)))
}

export function stateOf(states: States, id: string): NodeState {
  return states.get(id) ?? 'pending'
}
