/** The roles that an agent can have, each with the tools that it gets unless its definition lists its own. */

import { didYouMean } from '#kernel/nearest'

/** The tools that Concord ships. Each is a task; the action that a call of it is. */
export const shippedTools = {
  retrieve_memory: 'read_memory',
  propose_memory: 'propose_memory',
  read_artifact: 'tool_call',
  create_artifact: 'create_artifact',
  create_report_draft: 'create_artifact',
  evaluate_output: 'evaluate_output',
  request_approval: 'request_approval',
  request_human_input: 'request_human_input',
  spawn_subagent: 'spawn_subagent',
} as const

export const agentRoles = {
  coordinator: ['spawn_subagent', 'read_artifact', 'create_artifact', 'evaluate_output', 'request_human_input'],
  planner: ['retrieve_memory', 'read_artifact', 'create_artifact'],
  researcher: ['run_sql', 'retrieve_memory', 'create_artifact'],
  analyst: ['run_sql', 'create_artifact', 'evaluate_output'],
  reviewer: ['read_artifact', 'evaluate_output', 'request_human_input'],
  worker: ['read_artifact', 'create_artifact'],
  memory_manager: ['retrieve_memory', 'propose_memory'],
  domain_expert: ['retrieve_memory', 'read_artifact', 'create_artifact', 'request_human_input'],
  connector_specific: ['create_artifact'],
  evaluator: ['read_artifact', 'evaluate_output'],
  safety: ['read_artifact', 'evaluate_output', 'request_approval'],
  publisher: ['publish_artifact', 'request_approval'],
} as const satisfies Readonly<Record<string, readonly string[]>>

type AgentRole = keyof typeof agentRoles

export function toolsOfRole(role: string): readonly string[] {
  return Object.hasOwn(agentRoles, role) ? agentRoles[role as AgentRole] : []
}

/** A role of your own is a name that is not almost one of the twelve. */
export function hintOfRole(role: string): string | undefined {
  return Object.hasOwn(agentRoles, role) ? undefined : didYouMean(role, Object.keys(agentRoles)).hint
}
