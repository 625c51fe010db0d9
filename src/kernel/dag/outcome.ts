/** Whether a graph that has come to rest counts as a success: every essential end node is completed. */
import { type Graph, ruleOf } from './graph.ts'
import { isSettled, type States, stateOf } from './readiness.ts'

export type Outcome =
  /** Something can still move: no verdict yet. */
  | { readonly kind: 'open' }
  | { readonly kind: 'success' }
  /** `failing`: the essential end nodes that did not complete, in stable order. */
  | { readonly kind: 'failure'; readonly failing: readonly string[] }

/**
 * Nodes on which nothing depends, not counting edges into `always` nodes, and that are not `always` nodes themselves:
 * clean-up that runs regardless neither saves nor spoils the result.
 */
export function listEssentialEnds(graph: Graph): readonly string[] {
  const isAlways = graph.nodes.map((node) => ruleOf(node) === 'always')
  return graph.nodes
    .filter(
      (_, position) => !isAlways[position] && (graph.downstream[position] ?? []).every((after) => isAlways[after]),
    )
    .map((node) => node.id)
}

/** The rule by itself; an empty graph is a success at once. */
export function isCompletedOutcome(graph: Graph, states: States): boolean {
  return listEssentialEnds(graph).every((id) => stateOf(states, id) === 'completed')
}

export function decideOutcome(graph: Graph, states: States): Outcome {
  if (!isSettled(graph, states)) return { kind: 'open' }
  if (isCompletedOutcome(graph, states)) return { kind: 'success' }
  return { kind: 'failure', failing: listEssentialEnds(graph).filter((id) => stateOf(states, id) !== 'completed') }
}
