/** The API shapes of agent runs: views of a run, its steps and its messages, and the body of an action. */
import { z } from 'zod'
import { idView, keyField, orNull, textField, textView, timeView } from '#contract'
import { agentActionTypes } from '#kernel/agent-step'
import { encodeId, type IdKind } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { JsonObject } from '#kernel/json-value'
import { agentRunMachine, type AgentRunState } from '#kernel/machines/agent'
import { type EndReason, ends } from './advance-run.ts'
import { readContent, type StoredAgentMessage } from './agent-message.ts'
import type { StoredAgentRun } from './agent-run.ts'
import { messageRoles, messageTypes } from './agent-runtime.ts'
import type { RunStepRow } from './events.ts'

const endReasons = Object.keys(ends) as [EndReason, ...EndReason[]]
const states = Object.keys(agentRunMachine.states) as [AgentRunState, ...AgentRunState[]]
export const agentRunStatus = z.enum(states).meta({ id: 'AgentRunStatus', example: 'waiting_for_approval' })

const names = (example: string[], description: string) => z.array(z.string()).meta({ example, description })
const anyObject = (description: string) =>
  z
    .record(z.string(), z.unknown())
    .transform((value) => value as JsonObject)
    .meta({ description })

export const agentRunView = z
  .object({
    agent_run_id: idView('agent_run'),
    command_id: idView('command', 'The command that waits for the run.'),
    swarm_run_id: idView('swarm_run').nullable(),
    parent_agent_run_id: idView('agent_run', 'The run that spawned it.').nullable(),
    agent_name: textView('Investigate Revenue Anomaly'),
    agent_role: textView('analyst'),
    status: agentRunStatus,
    end_reason: z.enum(endReasons).nullable().meta({ example: null }),
    error: z.string().nullable().meta({ example: null, description: 'Why its runtime failed last.' }),
    goal: textView('Find out why revenue fell in May.'),
    allowed_tools: names(['run_sql', 'create_report_draft'], 'The only tools that it sees and may call.'),
    forbidden_tools: names(['send_external_email'], 'Refused whatever else allows them.'),
    allowed_connectors: names(['warehouse'], 'The connectors that its tools may use.'),
    max_steps: z.int().meta({ example: 20 }),
    step_count: z.int().meta({ example: 3 }),
    cost_units: z.string().meta({ example: '0.042000', description: 'What its model calls have cost.' }),
    spawn_depth: z.int().meta({ example: 0 }),
    labels: names([], 'What it has read that matters when it acts.'),
    created_at: timeView(),
    started_at: timeView().nullable(),
    deadline_at: timeView().nullable(),
    completed_at: timeView().nullable(),
  })
  .meta({ id: 'AgentRun', description: 'One agent at work on one goal, within limits.' })

export const agentRunDetailView = agentRunView
  .extend({
    manifest: anyObject('All that the agent sees: its tools, scopes, gates and limits.'),
    manifest_hash: z.string().nullable().meta({ description: 'SHA-256 of the manifest.' }),
    authority_hash: z
      .string()
      .nullable()
      .meta({ description: 'SHA-256 of what it may do, and of the hash of its parent.' }),
    termination: anyObject('What ends it.'),
  })
  .meta({ id: 'AgentRunDetail', description: 'An agent run with its manifest.' })

export const agentStepView = z
  .object({
    step_index: z.int().meta({ example: 0 }),
    action_type: z.enum(agentActionTypes).meta({ example: 'tool_call' }),
    tool_name: z.string().nullable().meta({ example: 'run_sql' }),
    decision: z.string().nullable().meta({ example: 'allowed' }),
    command_id: idView('command', 'The command that the step made.').nullable(),
    approval_id: idView('approval').nullable(),
    latency_ms: z.int().nullable().meta({ example: 812 }),
    token_usage: z.unknown().meta({ description: 'Tokens of the answer that the step came from.' }),
    cost_units: z.string().nullable().meta({ example: '0.014000' }),
    details: anyObject('Digests, sizes and ids. Content is in the messages.'),
    created_at: timeView(),
  })
  .meta({ id: 'AgentStep', description: 'One step of a run.' })

export const agentMessageView = z
  .object({
    agent_message_id: idView('agent_message'),
    position: z.int().meta({ example: 0 }),
    turn: z.int().meta({ example: 0 }),
    step_index: z.int().nullable().meta({ example: 0 }),
    role: z.enum(messageRoles).meta({ example: 'assistant' }),
    type: z.enum(messageTypes).meta({ example: 'answer' }),
    content: z.unknown().meta({ description: 'Null when it was erased.' }),
    digest: z.string().meta({ description: 'SHA-256 of the content as it was written.' }),
    size_bytes: z.int().meta({ example: 120 }),
    labels: z.array(z.string()).meta({ example: [] }),
    created_at: timeView(),
    erased_at: timeView().nullable(),
  })
  .meta({ id: 'AgentMessage', description: 'One message of the conversation of a run.' })

const proposable = agentActionTypes.filter((type) => type !== 'observe' && type !== 'final_answer')

export const actInRunBody = z
  .strictObject({
    action_type: z
      .enum(proposable as [string, ...string[]])
      .default('tool_call')
      .meta({ example: 'tool_call' }),
    tool_name: textField(200, { charsMin: 1 })
      .optional()
      .meta({ example: 'run_sql', description: 'A tool of the manifest. Default: the shipped tool of the action.' }),
    payload: z
      .record(z.string(), z.unknown())
      .transform((value) => value as JsonObject)
      .default({})
      .meta({ example: { query: 'select 1' } }),
    reason: textField(500, { filled: true }).meta({ example: 'Revenue of May is missing.' }),
    expected_output: textField(500).optional().meta({ example: 'One row per month.' }),
    idempotency_key: keyField('step-3').optional(),
    metadata: z.record(z.string(), z.unknown()).default({}).meta({ example: {} }),
  })
  .meta({ id: 'AgentToolCallRequest', description: 'An action of an agent, under its run.' })

export const runActionView = z
  .object({
    decision: z
      .enum(['allowed', 'denied', 'require_approval', 'require_more_input', 'pending'])
      .meta({ example: 'allowed' }),
    command_id: idView('command'),
    approval_id: idView('approval').nullable(),
    child_agent_run_id: idView('agent_run').nullable(),
    step_index: z.int().meta({ example: 3 }),
    status: z.string().meta({ example: 'succeeded' }),
    reasons: z.array(z.string()).meta({ example: [] }),
    output: z.unknown().meta({ description: 'What came of it, where it was done at once.' }),
  })
  .meta({ id: 'AgentActionDecision', description: 'The decision about an action of a run.' })

const show = (kind: IdKind) => (id: string) => encodeId(kind, id)
const time = (at: Date | null) => orNull(at, formatInstant)

export function toAgentRunView(run: StoredAgentRun): z.input<typeof agentRunView> {
  return {
    agent_run_id: encodeId('agent_run', run.agent_run_id),
    command_id: encodeId('command', run.command_id),
    swarm_run_id: orNull(run.swarm_run_id, show('swarm_run')),
    parent_agent_run_id: orNull(run.parent_agent_run_id, show('agent_run')),
    agent_name: run.agent_name,
    agent_role: run.agent_role,
    status: run.status,
    end_reason: run.end_reason,
    error: run.metadata.error ?? null,
    goal: run.goal,
    allowed_tools: [...run.allowed_tools],
    forbidden_tools: [...run.forbidden_tools],
    allowed_connectors: [...run.allowed_connectors],
    max_steps: run.max_steps,
    step_count: run.step_count,
    cost_units: run.cost_units,
    spawn_depth: run.spawn_depth,
    labels: [...run.labels],
    created_at: formatInstant(run.created_at),
    started_at: time(run.started_at),
    deadline_at: time(run.deadline_at),
    completed_at: time(run.completed_at),
  }
}

export function toAgentRunDetailView(run: StoredAgentRun): z.input<typeof agentRunDetailView> {
  const { manifest, manifest_hash, authority_hash, termination } = run
  return { ...toAgentRunView(run), manifest, manifest_hash, authority_hash, termination: { ...termination } }
}

export function toAgentStepView(step: RunStepRow): z.input<typeof agentStepView> {
  const { created_command_id: commandId, created_approval_id: approvalId, decision, ...details } = step.payload
  const shown = (kind: IdKind, id: unknown) => (typeof id === 'string' ? encodeId(kind, id) : null)
  return {
    step_index: step.step_index,
    action_type: step.event_type,
    tool_name: step.tool_name,
    decision: typeof decision === 'string' ? decision : null,
    command_id: shown('command', commandId),
    approval_id: shown('approval', approvalId),
    latency_ms: step.latency_ms,
    token_usage: step.token_usage,
    cost_units: orNull(step.cost_units, String),
    details,
    created_at: formatInstant(step.created_at),
  }
}

export function toAgentMessageView(message: StoredAgentMessage): z.input<typeof agentMessageView> {
  const { position, turn, step_index, digest, size_bytes, labels } = message
  return {
    agent_message_id: encodeId('agent_message', message.agent_message_id),
    position,
    turn,
    step_index,
    role: message.message_role,
    type: message.message_type,
    content: readContent(message),
    digest,
    size_bytes,
    labels: [...labels],
    created_at: formatInstant(message.created_at),
    erased_at: time(message.erased_at),
  }
}
