/** The approval types of a catalog: one per command type, and those of the project, which replace a type with the same name. */
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

/** The approval terms of a command type, in the form of the approvals room. */
export function approvalTermsOf(type: Pick<CommandType, 'version' | 'risk_level' | 'approval'>): ApprovalTypeInput {
  const {
    approval_type: name,
    quorum,
    expires_in_minutes,
    self_decision_allowed,
    editor_may_approve = null,
    edits_allowed = true,
    escalation,
    reminders_after_minutes,
    decision_values,
    meanings,
    resume,
  } = type.approval
  return {
    name,
    version: type.version,
    riskLevel: type.risk_level,
    expirationMinutes: expires_in_minutes,
    quorum,
    selfDecision: self_decision_allowed,
    editsAllowed: edits_allowed,
    editorMayApprove: editor_may_approve,
    remindersAfterMinutes: reminders_after_minutes ?? defaultReminders(expires_in_minutes),
    escalation: escalation ? { afterMinutes: escalation.after_minutes, role: escalation.role } : null,
    ...(decision_values && { decisionValues: decision_values }),
    ...(meanings && { meanings }),
    ...(resume && { resume }),
  }
}

const DAY_MINUTES = 24 * 60

/** One reminder at half the time. A request that never expires is reminded of after a day. */
function defaultReminders(expiresInMinutes: number | null): readonly number[] {
  const half = Math.floor((expiresInMinutes ?? 2 * DAY_MINUTES) / 2)
  return half >= 1 ? [half] : []
}
