/** Answers "why is this not running?" with the rule, the blocking nodes, and a sentence for a person. */
import { nearest } from '../nearest.ts'
import { accept, type Decision, quote, refuse } from '../refusal.ts'
import { type Graph, ruleOf, show } from './graph.ts'
import { decideReadiness, listUpstream, type Readiness, type States, stateOf, type Upstream } from './readiness.ts'
import type { NodeState, TriggerRule } from './trigger-rule.ts'

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
