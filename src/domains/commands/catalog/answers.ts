/** The answers of a policy. */
import type { PolicyAnswer, RequiredApproval } from '#kernel/policy/policy'

export const allow = (): PolicyAnswer => ({ decision: 'allow' })
export const deny = (...reasons: string[]): PolicyAnswer => ({ decision: 'deny', reasons })
/** Asks so many different persons of the role. */
export const ask = (count: number, role: string, reason = 'The policy asks for an approval.'): PolicyAnswer => ({
  decision: 'require_approval',
  reasons: [reason],
  required_approvals: [{ role, count } satisfies RequiredApproval],
})
export const delay = (ms: number, reason: string): PolicyAnswer => ({
  decision: 'delay',
  reasons: [reason],
  metadata: { delay_ms: ms },
})
export const needInput = (field: string, reason: string): PolicyAnswer => ({
  decision: 'require_more_input',
  reasons: [reason],
  metadata: { missing_fields: [field] },
})
