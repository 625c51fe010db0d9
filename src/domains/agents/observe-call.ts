/** What an agent gets to know of the outcome of a call, and what the step of the call says. Pure. */
import { hash } from 'node:crypto'
import { type AgentActionType, type AgentStep } from '#kernel/agent-step'
import { canonicalJson } from '#kernel/canonical-json'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import type { CommandState } from '#kernel/machines/command'
import { sayState } from '#kernel/say-state'
import type { AgentCall, AgentObservation } from './agent-runtime.ts'
import { shippedTools } from './roles.ts'

/** The command of a call, with the decision of the person who was asked about it. */
export type CallCommand = {
  readonly command_id: string
  readonly idempotency_key: string | null
  readonly status: CommandState
  readonly payload: JsonObject
  readonly result: JsonValue
  readonly error: string | null
  readonly error_class: string | null
  readonly cancellation_requested: boolean
  readonly completed_at: Date | null
  readonly approval_id: string | null
  readonly approval_status: string | null
  readonly decision_reason: string | null
}

/** Another cancel would change nothing: it was requested, or the command undoes its effects after a failure. */
export function isBeingCancelled({
  status,
  cancellation_requested,
}: Pick<CallCommand, 'status' | 'cancellation_requested'>): boolean {
  return cancellation_requested || status === 'cancelling' || status === 'compensating'
}

export type Observed = Omit<AgentObservation, 'callId'>

/** `tool_name` may be missing where the type of the action names a shipped tool. */
export function toolOf({ toolName, actionType }: Pick<AgentCall, 'toolName' | 'actionType'>): string | null {
  if (toolName !== null) return toolName
  const own = Object.entries(shippedTools).find(([, action]) => action === actionType && action !== 'tool_call')
  return own?.[0] ?? null
}

export function actionOf(call: Pick<AgentCall, 'toolName' | 'actionType'>): AgentActionType {
  const tool = toolOf(call)
  if (tool !== null && Object.hasOwn(shippedTools, tool)) return shippedTools[tool as keyof typeof shippedTools]
  return call.actionType
}

/** `content` is what a reading tool found: it is in the observation alone, never in the result of the command. */
export function observeCommand(command: CallCommand, tool: string | null, content?: JsonValue): Observed {
  const { status, error_class, error, decision_reason: reason } = command
  if (error_class === 'policy_denied') return { decision: 'denied', content: { reason: error } }
  if (error_class === 'approval_rejected' || command.approval_status === 'rejected')
    return { decision: 'rejected', content: { reason: reason ?? error } }
  if (status !== 'succeeded')
    return { decision: 'failed', content: { status, error_class, error: error ?? `It ${sayState(status)}.` } }
  const result = content ?? command.result
  if (tool === 'request_human_input') return { decision: 'answered', content: command.payload['answer'] ?? null }
  if (command.approval_status === 'approved') return { decision: 'approved', content: { result, reason } }
  return { decision: 'done', content: result }
}

/** Of a call that made no command: its tool is outside of the manifest, or its arguments could not be read. */
export function observeRefused(code: string, reason: string): Observed {
  return { decision: code === 'agents.tool.outside_scope' ? 'denied' : 'failed', content: { code, reason } }
}

export const noStepsLeft: Observed = { decision: 'denied', content: { reason: 'The run has no steps left.' } }

/** The digest and the size of a content, which stay when the content is erased. */
export function measure(content: JsonValue): { readonly digest: string; readonly size_bytes: number } {
  const text = canonicalJson(content)
  return { digest: hash('sha256', text), size_bytes: Buffer.byteLength(text) }
}

/** Equal for the same call with the same outcome. */
export function signatureOf(call: AgentCall, { decision, content }: Observed): string {
  return measure([actionOf(call), toolOf(call), call.payload, decision, content]).digest
}

export type StepCosts = Pick<AgentStep, 'latency_ms' | 'token_usage' | 'cost_units'>

/** The event of a step holds digests and ids. */
export function stepOf(
  run: { readonly agent_run_id: string; readonly step_index: number },
  call: AgentCall,
  observed: Observed,
  command: CallCommand | undefined,
  costs: StepCosts = {},
): AgentStep {
  const created = createdBy(command)
  return {
    ...run,
    ...costs,
    action_type: actionOf(call),
    tool_name: toolOf(call),
    action_payload: measure(call.payload),
    decision: decidedAs(observed.decision),
    observation: measure(observed.content),
    ...(command && { created_command_id: command.command_id }),
    ...(command?.approval_id && { created_approval_id: command.approval_id }),
    ...created,
  }
}

function decidedAs(decision: AgentObservation['decision']): string {
  if (decision === 'denied' || decision === 'rejected' || decision === 'failed') return decision
  return 'allowed'
}

/** Ids that a tool returns are links of the step. */
function createdBy(command: CallCommand | undefined): Partial<AgentStep> {
  const result = command?.status === 'succeeded' ? command.result : null
  if (!isJsonObject(result)) return {}
  const text = (name: string) => (typeof result[name] === 'string' ? result[name] : undefined)
  const links = {
    created_artifact_id: text('artifact_id'),
    created_memory_id: text('memory_candidate_id'),
    child_agent_run_id: text('child_agent_run_id'),
  }
  return Object.fromEntries(Object.entries(links).filter(([, id]) => id !== undefined))
}
