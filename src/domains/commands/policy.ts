/** Asks the policy about a command: the exact question, the answer with its trace, and what follows from it. Pure. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonValue } from '#kernel/json-value'
import { evaluatePolicy, type PolicyResult } from '#kernel/policy/evaluate'
import { higherRisk, type PolicyInput } from '#kernel/policy/policy'
import type { CompiledTask } from './catalog/open-catalog.ts'
import type { StoredCommand } from './command-table.ts'
import { highestClass } from '#kernel/data-class'

export type PolicyQuestion = {
  readonly input: PolicyInput
  readonly result: PolicyResult
  /** What the event holds: the question as it was, so that the decision can be made again. */
  readonly record: Readonly<Record<string, unknown>>
}

export function askPolicy(
  task: CompiledTask,
  command: StoredCommand,
  facts: Readonly<Record<string, unknown>>,
): PolicyQuestion {
  const { spec, type } = task
  const { follower: _follower, ...context } = command.context
  const declared = command.context.metadata['risk_level']
  const risk = higherRisk(
    higherRisk(spec.risk_level, type.risk_level),
    typeof declared === 'string' ? declared : undefined,
  )
  const input: PolicyInput = {
    action: type.name,
    command: {
      command_id: command.command_id,
      command_type: command.command_type,
      requested_by: command.requested_by,
      ingress: command.ingress,
      payload: command.payload,
      data_class: highestClass(command.payload, type.fields),
    },
    task: {
      name: spec.name,
      risk_level: risk,
      connector_requirements: spec.connector_requirements,
      notification_required: spec.notification_required,
      approval_required: spec.approval_required || type.approval.required,
      required_inputs: spec.required_inputs,
      metadata: spec.metadata,
    },
    context: { ...context, facts },
  }
  const result = evaluatePolicy(task.policy, input)
  // The question came out of jsonb and registered data, so it is JSON.
  const text = canonicalJson(input as unknown as JsonValue)
  const { decision, reasons, required_approvals, metadata, trace, policy_version } = result
  return {
    input,
    result,
    record: {
      decision,
      reasons,
      required_approvals,
      metadata,
      trace,
      policy_version,
      policies: task.policyNames,
      input,
      input_hash: hash('sha256', text),
    },
  }
}

export type PolicyOutcome =
  | { readonly t: 'deny'; readonly reason: string }
  | { readonly t: 'input'; readonly fields: readonly string[] }
  | {
      readonly t: 'approval'
      readonly approvers: readonly string[]
      readonly approvalType: string
      readonly reason: string
    }
  | { readonly t: 'delay'; readonly until: Date }
  | { readonly t: 'go' }

const DELAY_MS = 60_000

export function decidePolicyOutcome(
  task: CompiledTask,
  result: PolicyResult,
  gated: { readonly byOperation: boolean },
  now: Date,
): PolicyOutcome {
  const { approval } = task.type
  const reason = result.reasons.join(' ') || 'The contract asks for an approval.'
  switch (result.decision) {
    case 'deny':
      return { t: 'deny', reason }
    case 'require_more_input':
      return { t: 'input', fields: fieldsOf(result) }
    case 'escalate':
      return { t: 'approval', approvers: approversOf(result, approval.approver), approvalType: 'escalation', reason }
    case 'require_approval':
      return {
        t: 'approval',
        approvers: approversOf(result, approval.approver),
        approvalType: approval.approval_type,
        reason,
      }
    case 'delay':
      return { t: 'delay', until: new Date(now.getTime() + delayOf(result)) }
    case 'route':
    case 'allow': {
      const isGated = approval.required || task.spec.approval_required || gated.byOperation
      if (!isGated) return { t: 'go' }
      return { t: 'approval', approvers: [approval.approver], approvalType: approval.approval_type, reason }
    }
  }
}

/** A bare name is an org role: `data_owner` asks `role:data_owner`. */
function approversOf({ required_approvals }: PolicyResult, fallback: string): readonly string[] {
  if (required_approvals.length === 0) return [fallback]
  return required_approvals.map((name) => (name.includes(':') ? name : `role:${name}`))
}

function metadataOf({ metadata }: PolicyResult, field: string): readonly unknown[] {
  return Object.values(metadata).map((each) => (each as Record<string, unknown> | null)?.[field])
}

function fieldsOf(result: PolicyResult): readonly string[] {
  const fields = metadataOf(result, 'missing_fields').flatMap((list) => (Array.isArray(list) ? list.map(String) : []))
  return [...new Set(fields)].toSorted()
}

/** The longest delay that any rule asks for. */
function delayOf(result: PolicyResult): number {
  const asked = metadataOf(result, 'delay_ms').filter(
    (ms): ms is number => typeof ms === 'number' && Number.isSafeInteger(ms) && ms > 0,
  )
  return asked.length > 0 ? Math.max(...asked) : DELAY_MS
}
