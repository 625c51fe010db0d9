/** Builds what approvers are asked, one ask for each of them, bound to the content they will see. Pure. */
import type { ApprovalRequest, ApprovedContent } from '#domains/approvals'
import type { JsonObject } from '#kernel/json-value'
import { showQuoted } from '#kernel/visible-text'
import type { CompiledTask } from './catalog/open-catalog.ts'
import type { StoredCommand, StoredEffect } from './command-row.ts'
import type { Course } from './decide-course.ts'

export type AskInput = {
  readonly task: CompiledTask
  readonly command: Pick<StoredCommand, 'command_id' | 'workspace_id' | 'requested_by' | 'context'>
  readonly course: Extract<Course, { t: 'approval' }>
  readonly content: ApprovedContent
  readonly riskLevel: string
}

export function planAsks({ task, command, course, content, riskLevel }: AskInput): readonly ApprovalRequest[] {
  const { approval, side_effects, description } = task.type
  return course.approvers.map((approver) => ({
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    approvalType: course.approvalType,
    requestedBy: command.requested_by,
    approver,
    content,
    packet: {
      requestedAction: `${task.spec.name}: ${description}`,
      why: whyOf(course, command),
      affected: side_effects.length > 0 ? side_effects : ['nothing outside'],
      policy: task.policy.version,
      afterApproval: 'The command is carried out as shown.',
    },
    riskLevel,
    // An agent has the key of its requester, and would confirm itself.
    selfDecisionAllowed: approval.self_decision_allowed && command.context.run_as !== 'agent',
    ...(approval.expires_in_minutes === null ? {} : { expiresInMinutes: approval.expires_in_minutes }),
  }))
}

/** Whoever decides must know that no person wrote this, and what the agent gives as its reason: words to judge, nothing more. */
function whyOf({ reason }: AskInput['course'], { context }: Pick<StoredCommand, 'context'>): string {
  const said = context.metadata['reason']
  if (context.run_as !== 'agent') return reason
  return `${reason} Proposed by an agent${typeof said === 'string' ? `, which says: "${showQuoted(said)}"` : '.'}`
}

/** One approver: `approval:{command_id}`; several, or another round: each its own key. */
export function approvalKey(ask: ApprovalRequest, asks: number, round: number): string {
  const base =
    asks === 1 ? `approval:${ask.commandId}` : `approval:${ask.commandId}:${ask.approvalType}:${ask.approver ?? ''}`
  return round === 0 ? base : `${base}:${round + 1}`
}

export function approvalEffectPayload({
  approvalType,
  commandId,
  approver = '',
  packet,
  riskLevel,
}: ApprovalRequest): JsonObject {
  const { requestedAction, why, affected, policy, afterApproval } = packet
  const words = {
    requested_action: requestedAction,
    why,
    affected,
    policy,
    after_approval: afterApproval,
    risk_level: riskLevel ?? 'low',
  }
  return { approval_type: approvalType, command_id: commandId, approver, approval_packet: words }
}

/** What a person is asked about a deed whose outcome nobody can know. */
export function reconcileAsk(
  command: Pick<StoredCommand, 'command_id' | 'workspace_id' | 'requested_by'>,
  effect: StoredEffect,
  content: ApprovedContent,
  failure: { readonly message: string; readonly errorClass: string },
): ApprovalRequest {
  return {
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    approvalType: RECONCILE_EFFECT,
    requestedBy: command.requested_by,
    approver: 'role:operator',
    content,
    packet: {
      requestedAction: `Find out whether ${effect.effect_type} was done.`,
      why: `Attempt ${effect.attempt} ended without an answer: ${failure.message || 'no message'} (${failure.errorClass}).`,
      affected: [effect.effect_type, `key ${effect.idempotency_key ?? effect.domain_effect_id}`],
      policy: 'An outcome that nobody can know is settled by a person and never tried again on a guess.',
      afterApproval: 'Approved: it happened, the command goes on. Rejected: it did not happen, the effect has failed.',
    },
    domainEffectId: effect.domain_effect_id,
  }
}

export const RECONCILE_EFFECT = 'reconcile_effect'
