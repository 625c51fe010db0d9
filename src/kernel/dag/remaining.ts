/**
 * The `remaining` counter of a pending node: how many upstream ends its rule still waits for. A node is ready at zero. The
 * counter of an unreachable node never reaches zero, because the end that broke its rule does not decrement it.
 */
import { type Graph, ruleOf } from './graph.ts'
import { listUpstream, type States } from './readiness.ts'
import { type EndState, judgeUpstream, type NodeState, type TriggerRule } from './trigger-rule.ts'

/** Returns the initial counter: one for each upstream that the rule waits for, or that has already broken it. */
export function remainingOf(rule: TriggerRule, upstream: readonly NodeState[]): number {
  return upstream.filter((state) => {
    const verdict = judgeUpstream(rule, state)
    return verdict === 'holds' || verdict === 'breaks'
  }).length
}

/** Returns the counters of a whole graph, for storing it and for repairing it from its rows; in stable order. */
export function countRemaining(graph: Graph, states: States = new Map()): ReadonlyMap<string, number> {
  return new Map(
    graph.nodes.map((node, position) => [
      node.id,
      remainingOf(
        ruleOf(node),
        listUpstream(graph, states, position).map(({ state }) => state),
      ),
    ]),
  )
}

export type CounterStep = 'decrement' | 'skip' | 'nothing'

/** Returns the effect of one upstream end on one pending node: the table behind the statement that completes a task. */
export function decideCounterStep(rule: TriggerRule, end: EndState): CounterStep {
  const verdict = judgeUpstream(rule, end)
  return verdict === 'satisfies' ? 'decrement' : verdict === 'breaks' ? 'skip' : 'nothing'
}
