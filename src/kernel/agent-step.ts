/**
 * Converts one step of an agent to one event and back; steps have no table of their own. A part with a column goes into that
 * column, every other part into the payload under the same name. The type of the event is the type of the action.
 */
export const agentStepFields = [
  'action_type',
  'action_payload',
  'decision',
  'observation',
  'output',
  'created_command_id',
  'created_task_run_id',
  'created_artifact_id',
  'created_memory_id',
  'created_approval_id',
  'child_agent_run_id',
] as const
export type AgentStepField = (typeof agentStepFields)[number]

export const agentActionTypes = [
  'tool_call',
  'spawn_subagent',
  'read_memory',
  'propose_memory',
  'create_artifact',
  'request_approval',
  'request_human_input',
  'evaluate_output',
  'observe',
  'final_answer',
] as const
export type AgentActionType = (typeof agentActionTypes)[number]

/** Columns of the event; null for every event that is not a step. */
export type AgentStepColumns = {
  readonly agent_run_id: string
  readonly step_index: number
  readonly tool_name: string | null
  readonly latency_ms: number | null
  readonly token_usage: unknown
  readonly cost_units: string | null
}

export type AgentStep = Partial<AgentStepColumns> &
  Pick<AgentStepColumns, 'agent_run_id' | 'step_index'> & { readonly action_type: AgentActionType } & Readonly<
    Partial<Record<Exclude<AgentStepField, 'action_type'>, unknown>>
  >

export type AgentStepEvent = {
  readonly event_type: AgentActionType
  readonly purpose: 'agent_step'
  readonly columns: AgentStepColumns
  readonly payload: Readonly<Record<string, unknown>>
}

/** A part that the step leaves out is not in the payload; an explicit null is. */
export function toAgentStepEvent(step: AgentStep): AgentStepEvent {
  const { agent_run_id, step_index, tool_name = null, latency_ms = null, token_usage = null, cost_units = null } = step
  const said = agentStepFields.filter((field) => step[field] !== undefined)
  return {
    event_type: step.action_type,
    purpose: 'agent_step',
    columns: { agent_run_id, step_index, tool_name, latency_ms, token_usage, cost_units },
    payload: Object.fromEntries(said.map((field) => [field, step[field]])),
  }
}

/** Ignores other fields of the payload: a step consists only of the parts in this table. */
export function readAgentStep({ event_type, columns, payload }: Omit<AgentStepEvent, 'purpose'>): AgentStep {
  const said = agentStepFields.filter((field) => Object.hasOwn(payload, field))
  return {
    ...columns,
    ...Object.fromEntries(said.map((field) => [field, payload[field]])),
    action_type: event_type,
  }
}
