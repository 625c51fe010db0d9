/** Decides from its upstream nodes whether a node may start, must wait, or can never start, and what follows when a node ends. */
import { KernelFault } from '../errors.ts'
import { nearest } from '../nearest.ts'
import { accept, type Decision, quote, refuse } from '../refusal.ts'
import { type Graph, type GraphNode, show } from './graph.ts'

/** Each rule is defined by the meaning of one upstream end for the waiting node. The first is the default. */
export const triggerRules = ['all_success', 'all_done', 'none_failed', 'always'] as const
export type TriggerRule = (typeof triggerRules)[number]

export const endStates = ['completed', 'failed', 'cancelled', 'skipped'] as const
export type EndState = (typeof endStates)[number]

/** `pending`: not released yet, so it can still be skipped; `active`: released and not ended, in any state. */
export type NodeState = 'pending' | 'active' | EndState

/**
 * `holds`: the rule still waits for this upstream; `satisfies`: it no longer does; `breaks`: the rule can never be met;
 * `ignored`: the rule does not consider upstream nodes.
 */
export type Verdict = 'holds' | 'satisfies' | 'breaks' | 'ignored'

/**
 * The only definition of the rules: a fifth rule is a value above and a case here. A rule judges each
 * upstream alone, so one counter per node can replace reading all its upstream nodes.
 */
export function judgeUpstream(rule: TriggerRule, upstream: NodeState): Verdict {
  const ended = isEndState(upstream)
  switch (rule) {
    case 'all_success':
      return !ended ? 'holds' : upstream === 'completed' ? 'satisfies' : 'breaks'
    case 'all_done':
      return !ended ? 'holds' : 'satisfies'
    case 'none_failed':
      return !ended ? 'holds' : upstream === 'failed' ? 'breaks' : 'satisfies'
    case 'always':
      return 'ignored'
  }
}

export function isEndState(state: NodeState): state is EndState {
  return state !== 'pending' && state !== 'active'
}

export function ruleOf(node: GraphNode): TriggerRule {
  return node.rule ?? triggerRules[0]
}

export function isTriggerRule(rule: string): rule is TriggerRule {
  return triggerRules.some((known) => known === rule)
}

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

/** Returns true when every node has ended, or for an empty graph. */
export function isSettled(graph: Graph, states: States): boolean {
  return graph.nodes.every((node) => isEndState(stateOf(states, node.id)))
}

export function stateOf(states: States, id: string): NodeState {
  return states.get(id) ?? 'pending'
}

// The `remaining` counter of a pending node: how many upstream ends its rule still waits for. A node is ready at zero. The
// counter of an unreachable node never reaches zero, because the end that broke its rule does not decrement it.

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
 * Computes the consequences of one ended node. `states` already contains the end of `endedId` but none of its consequences.
 * Visits only the edges that leave the ended node and the skipped ones: O(out-degree) for each, whatever the size of the graph.
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

export type GraphOutcome =
  /** A node can still change its state, so there is no verdict yet. */
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

/** An empty graph is a success. */
export function isCompletedOutcome(graph: Graph, states: States): boolean {
  return listEssentialEnds(graph).every((id) => stateOf(states, id) === 'completed')
}

/** A finished graph is a success when every essential end node is completed. */
export function decideOutcome(graph: Graph, states: States): GraphOutcome {
  if (!isSettled(graph, states)) return { kind: 'open' }
  if (isCompletedOutcome(graph, states)) return { kind: 'success' }
  return { kind: 'failure', failing: listEssentialEnds(graph).filter((id) => stateOf(states, id) !== 'completed') }
}

export type Blocker = Upstream & { readonly name: string }

export type WhyBlocked = {
  readonly id: string
  readonly name: string
  readonly state: NodeState
  readonly rule: TriggerRule
  readonly readiness: Readiness['kind']
  /** In stable order; empty when nothing blocks the node. */
  readonly blockers: readonly Blocker[]
  readonly words: string
}

const NAMED_MAX = 5

const ruleWords = {
  all_success: 'all of its dependencies must complete',
  all_done: 'all of its dependencies must end',
  none_failed: 'all of its dependencies must end and none may fail',
  always: 'it does not wait for its dependencies',
} as const satisfies Record<TriggerRule, string>

/** Answers "why is this not running?" with the rule, the blocking nodes, and a sentence for a person. */
export function whyBlocked(graph: Graph, states: States, id: string): Decision<WhyBlocked> {
  const position = graph.positions.get(id)
  const node = position === undefined ? undefined : graph.nodes[position]
  if (position === undefined || !node) {
    const near = nearest(id, graph.positions.keys())
    const more = near === undefined ? {} : { hint: `Did you mean ${quote(near)}?` }
    return refuse('dag_unknown_ref', `The graph has no node ${quote(id)}.`, more)
  }
  const rule = ruleOf(node)
  const state = stateOf(states, id)
  const readiness = decideReadiness(rule, listUpstream(graph, states, position))
  const blockers = blockersOf(state, readiness).map((upstream) => ({ ...upstream, name: nameOf(graph, upstream.id) }))
  const name = nameOf(graph, id)
  const words = `${show(name)} ${stateWords(state, readiness)}${listWords(blockers)} (${rule}: ${ruleWords[rule]}).`
  return accept({ id, name, state, rule, readiness: readiness.kind, blockers, words })
}

/** A node that was cancelled while it waited has no blockers. */
function blockersOf(state: NodeState, readiness: Readiness): readonly Upstream[] {
  if (readiness.kind === 'waiting') return state === 'pending' ? readiness.on : []
  return readiness.kind === 'unreachable' && (state === 'pending' || state === 'skipped') ? readiness.because : []
}

function nameOf(graph: Graph, id: string): string {
  return graph.nodes[graph.positions.get(id) ?? -1]?.name ?? id
}

function stateWords(state: NodeState, readiness: Readiness): string {
  if (state === 'active') return 'is not blocked: it has been released'
  if (state === 'skipped' && readiness.kind === 'unreachable') return 'was skipped because of '
  if (state !== 'pending') return `has ended as ${state}`
  if (readiness.kind === 'ready') return 'is not blocked: it can start'
  return readiness.kind === 'waiting' ? 'waits for ' : 'can never start because of '
}

function listWords(blockers: readonly Blocker[]): string {
  const named = blockers.slice(0, NAMED_MAX).map(({ name, state }) => `${show(name)} (${state})`)
  const more = blockers.length - named.length
  return named.join(', ') + (more > 0 ? ` and ${more} more` : '')
}
