/**
 * Submits the tool call of an agent as a command, and returns the decision about it. An agent acts for a person, with at most that
 * person's rights; what it declares about itself can only make the decision stricter.
 */
import type { Actor } from '#kernel/actor'
import { listApprovals } from '#domains/approvals'
import type { Principal } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import { actionKey, parseIdempotencyKey } from '#kernel/idempotency-key'
import type { RiskLevel } from '#kernel/policy/policy'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { readCommand, refuseMissing, type StoredCommand } from '../command-table.ts'
import { reasonOf } from '../cancel-command.ts'
import { rejectRequest, submitCommand } from '../submit.ts'
import { type CommandDeps, mayReadCommand } from '../deps.ts'
import { type ActionView, toActionView } from './action-contract.ts'
import { type ActionAnswer, awaitDecision, decideAnswer, type Gate } from './action-decision.ts'
import { decideScope, findTool } from './find-tool.ts'

export type ProposeAction = {
  readonly workspaceId: string
  readonly toolName: string
  readonly payload: JsonObject
  readonly reason: string
  readonly actionType?: 'tool_call' | undefined
  /** The agent's own estimate; ignored below the level of the tool. */
  readonly riskLevel?: RiskLevel | undefined
  readonly idempotencyKey?: string | undefined
  readonly requestId: string
  /** How long to wait for the decision. */
  readonly waitMs?: number
  readonly signal?: AbortSignal
}

export type ProposedAction = ActionAnswer & { readonly command: StoredCommand; readonly isNew: boolean }

/** A free worker takes the first turn of a command within milliseconds; a request is not held longer than this. */
const WAIT_MS = 5_000
/** One command has at most this many approvals. */
const GATES_MAX = 50

/** The person for whom the agent acts. */
type ActingFor = Actor & { readonly principal: Principal }

export async function proposeAction(
  deps: CommandDeps,
  by: ActingFor,
  input: ProposeAction,
): Promise<Decision<ProposedAction>> {
  const { workspaceId, toolName, payload, requestId, idempotencyKey, riskLevel } = input
  // The agent of an administrator may request what the administrator may request, but it is not an operator.
  const agent = { ...by, kind: 'user' as const }
  const tool = findTool(deps.catalog, toolName)
  if (!tool.ok) return rejectRequest(deps, agent, { workspaceId, taskName: toolName, ingress: 'agent_action' }, tool)
  const { spec } = tool.value
  const covered = decideScope(tool.value, by.principal.agent)
  if (!covered.ok)
    return rejectRequest(deps, agent, { workspaceId, taskName: spec.name, ingress: 'agent_action' }, covered)
  // Checked without its prefix: with the prefix, an empty key would be valid.
  const key = idempotencyKey === undefined ? accept(undefined) : parseIdempotencyKey(idempotencyKey)
  if (!key.ok) {
    const refusal = { ...key, path: 'idempotency_key' }
    return rejectRequest(deps, agent, { workspaceId, taskName: spec.name, ingress: 'agent_action' }, refusal)
  }
  const submitted = await submitCommand(deps, agent, {
    workspaceId,
    taskName: spec.name,
    payload,
    idempotencyKey: key.value === undefined ? undefined : actionKey(key.value),
    ingress: 'agent_action',
    requestId,
    runAs: 'agent',
    metadata: {
      action_type: input.actionType ?? 'tool_call',
      tool_name: toolName,
      reason: reasonOf(input.reason),
      risk_level: riskLevel ?? spec.risk_level,
    },
  })
  if (!submitted.ok) return submitted
  const { command } = submitted.value
  // The key of a command that exists does not open it to another agent.
  if (!mayReadCommand(by.principal, command)) {
    return refuse('commands.proposal.of_another', 'Somebody else has already asked for this.', {
      path: 'idempotency_key',
    })
  }
  return answerOf(deps, by.principal, submitted.value, input)
}

/** The decision about an earlier proposal, and what came of it. A command that the caller may not read is missing. */
export async function readAction(
  deps: Pick<CommandDeps, 'db' | 'sleep'>,
  principal: Principal,
  {
    workspaceId,
    commandId,
    waitMs = 0,
  }: Pick<ProposeAction, 'workspaceId' | 'waitMs'> & { readonly commandId: string },
): Promise<Decision<ProposedAction>> {
  const found = await readCommand(deps.db, workspaceId, commandId)
  if (!found.ok) return found
  const { command } = found.value
  if (!mayReadCommand(principal, command)) return refuseMissing()
  return answerOf(deps, principal, { command, isNew: false }, { waitMs })
}

async function answerOf(
  deps: Pick<CommandDeps, 'db' | 'sleep'>,
  principal: Principal,
  { command, isNew }: Pick<ProposedAction, 'command' | 'isNew'>,
  { waitMs = WAIT_MS, signal = new AbortController().signal }: Pick<ProposeAction, 'waitMs' | 'signal'>,
): Promise<Decision<ProposedAction>> {
  const of = { workspaceId: command.workspace_id, commandId: command.command_id }
  const record = await awaitDecision(deps, of, waitMs, signal)
  if (!record) return refuseMissing()
  return accept({ ...decideAnswer(record, await listGates(deps, principal, of)), command, isNew })
}

/** The current approvals of the command itself. A question about the outcome of an effect, or an approval of an earlier round, is not a gate. */
async function listGates(
  { db }: Pick<CommandDeps, 'db'>,
  principal: Principal,
  of: { readonly workspaceId: string; readonly commandId: string },
): Promise<readonly Gate[]> {
  const { items } = await listApprovals(db, principal, { ...of, status: 'all', limit: GATES_MAX })
  return items.filter(({ domain_effect_id, superseded_by }) => domain_effect_id === null && superseded_by === null)
}

type AgentAction = Omit<ProposeAction, keyof AgentSession>
type AgentSession = Pick<ProposeAction, 'workspaceId' | 'requestId' | 'waitMs' | 'signal'>

/** The only object that an agent gets: one function. It reaches no table, connector, catalog or credential, and the person and the workspace are fixed. */
export function agentGateway(deps: CommandDeps, by: ActingFor, session: AgentSession) {
  return Object.freeze({
    async propose(action: AgentAction): Promise<ActionView | Refusal> {
      const { toolName, payload, reason, actionType, riskLevel, idempotencyKey } = action
      const input = { toolName, payload, reason, actionType, riskLevel, idempotencyKey, ...session }
      const proposed = await proposeAction(deps, by, input)
      return proposed.ok ? toActionView(proposed.value) : proposed
    },
  })
}
