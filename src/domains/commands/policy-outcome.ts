/** What follows from the answer of policy: refuse, ask people, wait, or go on. Pure. */
import { approverRef } from '#domains/approvals'
import type { PolicyResult } from '#kernel/policy/evaluate'
import type { NeededApproval, PolicyOutcome } from './asks.ts'
import type { CompiledTask } from './catalog/open-catalog.ts'

const DELAY_MS = 60_000

export function decidePolicyOutcome(
  task: CompiledTask,
  result: PolicyResult,
  isOperationGated: boolean,
  now: Date,
): PolicyOutcome {
  const { approval } = task.type
  const reason = result.reasons.join(' ') || 'The contract requires an approval.'
  switch (result.decision) {
    case 'deny':
      return { t: 'deny', reason }
    case 'require_more_input':
      return { t: 'input', fields: fieldsOf(result) }
    case 'escalate':
    case 'require_approval': {
      const approvalType = result.decision === 'escalate' ? 'escalation' : approval.approval_type
      const expiresInMinutes = expiryOf(result)
      return { t: 'approval', approvers: approversOf(result, approval), approvalType, reason, expiresInMinutes }
    }
    case 'delay':
      return { t: 'delay', until: new Date(now.getTime() + delayOf(result)) }
    case 'route':
    case 'allow': {
      const isGated = approval.required || task.spec.approval_required || isOperationGated
      if (!isGated) return { t: 'go' }
      const approvers = approversOf({ required_approvals: [] }, approval)
      return { t: 'approval', approvers, approvalType: approval.approval_type, reason, expiresInMinutes: null }
    }
  }
}

/**
 * A name without a prefix is an org role: `data_owner` means `role:data_owner`. Two spellings of one role are one approval with the higher
 * count. The quorum of the type holds for each.
 */
function approversOf(
  { required_approvals }: Pick<PolicyResult, 'required_approvals'>,
  { approver: fallback, quorum }: CompiledTask['type']['approval'],
): readonly NeededApproval[] {
  const needed = new Map<string, NeededApproval>()
  for (const required of required_approvals.length === 0 ? [fallback] : required_approvals) {
    const { role, count } = typeof required === 'string' ? { role: required, count: 1 } : required
    const approver = role.includes(':') ? role : `role:${role}`
    const key = approverRef(approver) ?? approver
    const known = needed.get(key)
    needed.set(key, {
      approver: known?.approver ?? approver,
      count: Math.max(quorum, count, known?.count ?? 1),
    })
  }
  return [...needed.values()]
}

function metadataOf({ metadata }: PolicyResult, field: string): readonly unknown[] {
  return Object.values(metadata).map((each) => (each as Record<string, unknown> | null)?.[field])
}

function fieldsOf(result: PolicyResult): readonly string[] {
  const fields = metadataOf(result, 'missing_fields').flatMap((list) => (Array.isArray(list) ? list.map(String) : []))
  return [...new Set(fields)].toSorted()
}

const countsIn = (result: PolicyResult, field: string) =>
  metadataOf(result, field).filter(
    (count): count is number => typeof count === 'number' && Number.isSafeInteger(count) && count > 0,
  )

/** The shortest time that any rule gives people for their decision. */
function expiryOf(result: PolicyResult): number | null {
  const minutes = countsIn(result, 'expires_in_minutes')
  return minutes.length > 0 ? Math.min(...minutes) : null
}

/** The longest delay that any rule sets. */
function delayOf(result: PolicyResult): number {
  const asked = countsIn(result, 'delay_ms')
  return asked.length > 0 ? Math.max(...asked) : DELAY_MS
}
