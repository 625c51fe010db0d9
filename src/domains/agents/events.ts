/** The closed list of the events of this room, and the steps of a run, which are read from them. They hold ids, digests, sizes and labels, never content. */
import type { AgentActionType } from '#kernel/agent-step'
import type { JsonObject } from '#kernel/json-value'
import { type Db, domainEventLog, pageText, type Paged, scoped, statement } from '#store'

const runEventTypes = {
  /** A run was inserted with its manifest. */
  agent_run_started: 'audit',
  /** The cancel of a run was requested. */
  agent_run_cancel_requested: 'audit',
  /** An operator resumed a run that got no more turns. */
  agent_run_resumed: 'audit',
  /** A run got another status: `from` and `to`. */
  status_changed: 'event',
  /** A step of a run: it called a tool. */
  tool_call: 'agent_step',
  /** A step of a run: it asked for a child. */
  spawn_subagent: 'agent_step',
  /** A step of a run: it read memory. */
  read_memory: 'agent_step',
  /** A step of a run: it proposed a memory. */
  propose_memory: 'agent_step',
  /** A step of a run: it wrote an artifact. */
  create_artifact: 'agent_step',
  /** A step of a run: it asked people for a decision. */
  request_approval: 'agent_step',
  /** A step of a run: it asked a person for input. */
  request_human_input: 'agent_step',
  /** A step of a run: it had an output checked. */
  evaluate_output: 'agent_step',
  /** A step of a run: words without an action. */
  observe: 'agent_step',
  /** The last step of a run: its answer. */
  final_answer: 'agent_step',
} as const

export const runLog = domainEventLog(runEventTypes)

export type RunStepRow = {
  readonly step_index: number
  readonly event_type: AgentActionType
  readonly tool_name: string | null
  readonly latency_ms: number | null
  readonly token_usage: unknown
  readonly cost_units: string | null
  readonly payload: JsonObject
  readonly created_at: Date
}

type ListSteps = {
  readonly workspaceId: string
  readonly agentRunId: string
  readonly after: number | null
  readonly limit: number
}

const listPage = statement<RunStepRow & Paged>(
  'agents.list_steps',
  pageText(`select e.step_index, e.event_type, e.tool_name, e.latency_ms, e.token_usage, e.cost_units, e.payload, e.created_at
    from concord.domain_events as e
    where e.workspace_id = $1::uuid and e.agent_run_id = $2::uuid and e.purpose = 'agent_step' and ($3::integer is null or e.step_index > $3)
    order by e.step_index limit $4`),
)

export function listAgentSteps(db: Db, { workspaceId, agentRunId, after, limit }: ListSteps) {
  return scoped(db, workspaceId).read((tx) => tx.run(listPage, [workspaceId, agentRunId, after, limit]))
}
