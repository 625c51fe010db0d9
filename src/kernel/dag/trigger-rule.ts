/** The four trigger rules, each defined by the meaning of one upstream end for the waiting node; everything else follows by counting. */

/** The first is the default. */
export const triggerRules = ['all_success', 'all_done', 'none_failed', 'always'] as const
export type TriggerRule = (typeof triggerRules)[number]

export const endStates = ['completed', 'failed', 'cancelled', 'skipped'] as const
export type EndState = (typeof endStates)[number]

/** `pending`: not released yet, so it can still be skipped; `active`: released and not ended, whatever its name. */
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

export function isTriggerRule(rule: string): rule is TriggerRule {
  return triggerRules.some((known) => known === rule)
}
