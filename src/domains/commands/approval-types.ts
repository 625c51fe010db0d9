/** The approval types of a catalog: one for each command type that names its own terms. */
import { type ApprovalType, defineApprovalType } from '#domains/approvals'
import type { Catalog } from './catalog/open-catalog.ts'

export function approvalTypesOf(catalog: Pick<Catalog, 'taskOfType'>): readonly ApprovalType[] {
  const types = new Map<string, ApprovalType>()
  for (const { type } of catalog.taskOfType.values()) {
    const { approval_type: name, expires_in_minutes, self_decision_allowed } = type.approval
    const terms = { name, version: type.version, riskLevel: type.risk_level, expirationMinutes: expires_in_minutes }
    types.set(name, defineApprovalType({ ...terms, selfDecision: self_decision_allowed, editsAllowed: true }))
  }
  return [...types.values()]
}
