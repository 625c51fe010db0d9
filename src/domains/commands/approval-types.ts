/** The approval types of a catalog: one for each command type, and those of the project, which take the place of a type with the same name. */
import { type ApprovalType, type ApprovalTypeInput, defineApprovalType } from '#domains/approvals'
import type { CommandType } from './catalog/definitions.ts'
import type { Catalog } from './catalog/open-catalog.ts'

export function approvalTypesOf(
  catalog: Pick<Catalog, 'taskOfType'>,
  own: readonly ApprovalType[] = [],
): readonly ApprovalType[] {
  const types = new Map<string, ApprovalType>()
  for (const { type } of catalog.taskOfType.values()) {
    const terms = approvalTermsOf(type)
    types.set(terms.name, defineApprovalType(terms))
  }
  for (const type of own) types.set(type.name, type)
  return [...types.values()]
}

/** The terms of a command type in the words of the approvals room. */
export function approvalTermsOf(type: Pick<CommandType, 'version' | 'risk_level' | 'approval'>): ApprovalTypeInput {
  const { approval_type: name, expires_in_minutes, self_decision_allowed, escalation } = type.approval
  return {
    name,
    version: type.version,
    riskLevel: type.risk_level,
    expirationMinutes: expires_in_minutes,
    selfDecision: self_decision_allowed,
    editsAllowed: true,
    remindersAfterMinutes: type.approval.reminders_after_minutes ?? usualReminders(expires_in_minutes),
    escalation: escalation ? { afterMinutes: escalation.after_minutes, role: escalation.role } : null,
  }
}

const DAY_MINUTES = 24 * 60

/** While there is still as much time as has passed; what never expires is brought back after a day. */
function usualReminders(expiresInMinutes: number | null): readonly number[] {
  const half = Math.floor((expiresInMinutes ?? 2 * DAY_MINUTES) / 2)
  return half >= 1 ? [half] : []
}
