/** Decides whether a finished graph counts as a success: every essential end node is completed. */
import { type Graph, ruleOf } from './graph.ts'
import { isSettled, type States, stateOf } from './readiness.ts'

export type Outcome =
  /** A node can still move: no verdict yet. */
  | { readonly kind: 'open' }
  | { readonly kind: 'success' }
  /** `failing`: the essential end nodes that did not complete, in stable order. */
  | { readonly kind: 'failure'; readonly failing: readonly string[] }

/**
 * Returns the nodes that no other node depends on, ignoring edges into `always` nodes, and that are not `always` nodes themselves:
 * unconditional clean-up does not affect the result.
 */
export function listEssentialEnds(graph: Graph): readonly string[] {
  const isAlways = graph.nodes.map((node) => ruleOf(node) === 'always')
  return graph.nodes
    .filter(
      (_, position) => !isAlways[position] && (graph.downstream[position] ?? []).every((after) => isAlways[after]),
    )
    .map((node) => node.id)
}

/** Applies the rule; an empty graph is a success at once. */
export function isCompletedOutcome(graph: Graph, states: States): boolean {
  return listEssentialEnds(graph).every((id) => stateOf(states, id) === 'completed')
}

export function decideOutcome(graph: Graph, states: States): Outcome {
  if (!isSettled(graph, states)) return { kind: 'open' }
  if (isCompletedOutcome(graph, states)) return { kind: 'success' }
  return { kind: 'failure', failing: listEssentialEnds(graph).filter((id) => stateOf(states, id) !== 'completed') }
}
