/**
 * Evaluates one question against a policy: denied unless a rule allows it, the strongest answer wins, and every answer is
 * recorded.
 */
import { quote } from '../refusal.ts'
import {
  type Facts,
  isPolicyDecision,
  isRequiredApproval,
  type Policy,
  type PolicyAnswer,
  type PolicyCategory,
  type PolicyDecision,
  policyDecisions,
  type PolicyInput,
  type PolicyRule,
  type RequiredApproval,
  rulesFor,
} from './policy.ts'

export type PolicyResult = {
  readonly decision: PolicyDecision
  /** Of all rules that answered, in list order. */
  readonly reasons: readonly string[]
  /** The union over all rules, sorted by role. Of several counts for one role the highest holds. */
  readonly required_approvals: readonly RequiredApproval[]
  /** Keyed by the name of the rule that gave it, so that two rules cannot overwrite each other. */
  readonly metadata: Facts
  readonly trace: readonly TraceLine[]
  readonly policy_version: string
}

/** The answer of one consulted rule; `fault` marks an invalid answer that counts as deny. */
export type TraceLine = {
  readonly rule: string
  readonly category: PolicyCategory
  readonly answer: PolicyDecision | 'no_opinion'
  readonly fault?: true
}

const rank = Object.fromEntries(policyDecisions.map((decision, at) => [decision, at])) as Record<PolicyDecision, number>

export function evaluatePolicy(policy: Policy, input: PolicyInput): PolicyResult {
  let decision: PolicyDecision | undefined
  let isAllowed = false
  const reasons: string[] = []
  const approvals = new Map<string, number>()
  const metadata: Record<string, unknown> = {}
  const trace: TraceLine[] = []
  for (const rule of rulesFor(policy, input.action)) {
    const { answer, isFault } = consult(rule, input)
    trace.push({
      rule: rule.name,
      category: rule.category,
      answer: answer?.decision ?? 'no_opinion',
      ...(isFault ? { fault: true } : {}),
    })
    if (!answer) continue
    if (answer.decision === 'allow') isAllowed = true
    if (decision === undefined || rank[answer.decision] < rank[decision]) decision = answer.decision
    if (answer.reasons) reasons.push(...answer.reasons)
    for (const approval of answer.required_approvals ?? []) {
      const { role, count } = typeof approval === 'string' ? { role: approval, count: 1 } : approval
      approvals.set(role, Math.max(count, approvals.get(role) ?? 1))
    }
    // A rule called __proto__ must become a key, not the prototype.
    if (answer.metadata) Object.defineProperty(metadata, rule.name, { value: answer.metadata, enumerable: true })
  }
  // A route only says where to run: without a rule that allows it, it permits nothing.
  if (decision === undefined || (decision === 'route' && !isAllowed)) {
    decision = 'deny'
    reasons.push(`no rule allows ${quote(input.action)}`)
  }
  return {
    decision,
    reasons,
    required_approvals: [...approvals.keys()].sort().map((role) => {
      const count = approvals.get(role) ?? 1
      return count === 1 ? role : { role, count }
    }),
    metadata,
    trace,
    policy_version: policy.version,
  }
}

/** Fails closed: a rule that throws, or returns an invalid answer, counts as deny. */
function consult(rule: PolicyRule, input: PolicyInput): { answer: PolicyAnswer | undefined; isFault: boolean } {
  try {
    const answer = rule.decide(input)
    if (answer === undefined || isAnswer(answer)) return { answer, isFault: false }
    return fault(`rule ${rule.name} returned an invalid answer`)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return fault(`rule ${rule.name} failed: ${quote(message)}`)
  }
}

/** The compiler has checked Concord's own rules; a foreign rule may return anything, for example a promise. */
function isAnswer({ decision, reasons, required_approvals: approvals }: PolicyAnswer): boolean {
  return (
    isPolicyDecision(decision) && isList(reasons) && isList(approvals) && (approvals ?? []).every(isRequiredApproval)
  )
}

function isList(value: unknown): boolean {
  return value === undefined || Array.isArray(value)
}

function fault(reason: string): { answer: PolicyAnswer; isFault: true } {
  return { answer: { decision: 'deny', reasons: [reason] }, isFault: true }
}
