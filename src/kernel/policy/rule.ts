/** The type of a rule, its possible answers, and their precedence. */

/** From the strongest to the weakest: the first answer in this list is the decision. */
export const policyDecisions = [
  'deny',
  'require_more_input',
  'escalate',
  'require_approval',
  'delay',
  'route',
  'allow',
] as const
export type PolicyDecision = (typeof policyDecisions)[number]

export const policyCategories = [
  'permission',
  'cost',
  'risk',
  'data_safety',
  'approval_requirement',
  'memory_consent',
  'data_access',
  'connector_scope',
  'external_sharing',
  'rate_quota',
  'environment',
  'agent_spawn',
] as const
export type PolicyCategory = (typeof policyCategories)[number]

export type Facts = Readonly<Record<string, unknown>>

/** The whole input of a rule. Times, balances and answers of other engines arrive as facts of the context. */
export type PolicyInput = {
  /** The requested action; the index finds rules by it. */
  readonly action: string
  readonly command: Facts
  readonly task: Facts
  readonly context: Facts
}

export type PolicyAnswer = {
  readonly decision: PolicyDecision
  readonly reasons?: readonly string[]
  readonly required_approvals?: readonly string[]
  readonly metadata?: Facts
}

/** A named pure function: no clock, no randomness, no database, no changes to its input. */
export type PolicyRule = {
  readonly name: string
  readonly category: PolicyCategory
  /** The actions it has an opinion on, or all of them. */
  readonly actions: readonly string[] | '*'
  /** Returns undefined for no opinion. */
  readonly decide: (input: PolicyInput) => PolicyAnswer | undefined
}

const knownDecisions: ReadonlySet<unknown> = new Set(policyDecisions)
const knownCategories: ReadonlySet<unknown> = new Set(policyCategories)

export function isPolicyDecision(decision: unknown): decision is PolicyDecision {
  return knownDecisions.has(decision)
}

export function isPolicyCategory(category: unknown): category is PolicyCategory {
  return knownCategories.has(category)
}
