/**
 * The way in for agents: a tool call becomes a command like any other, and Concord decides about it. An agent acts for a person, with
 * that person's rights and never more; what it declares about itself can only make the decision stricter.
 */
import type { Actor } from '#kernel/actor'
import { listApprovals } from '#domains/approvals'
import type { Principal } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import { actionKey, parseIdempotencyKey } from '#kernel/idempotency-key'
import type { RiskLevel } from '#kernel/policy/policy'
import { accept, type Decision } from '#kernel/refusal'
import { refuseMissing, type StoredCommand } from '../command-table.ts'
import { reasonOf } from '../cancel-command.ts'
import { rejectRequest, submitCommand } from '../submit.ts'
import type { CommandDeps } from '../deps.ts'
import { type ActionAnswer, decideAnswer, type Gate } from './action-answer.ts'
import { awaitDecision } from './find-decision.ts'
import { findTool } from './find-tool.ts'

/** Steps of an agent's run have more kinds; what is asked for one by one is a tool call. */
export const actionTypes = ['tool_call'] as const
type ActionType = (typeof actionTypes)[number]

export type ProposeAction = {
  readonly workspaceId: string
  readonly toolName: string
  readonly payload: JsonObject
  readonly reason: string
  readonly actionType?: ActionType | undefined
  /** What the agent itself thinks of it; below the tool's own level it counts for nothing. */
  readonly riskLevel?: RiskLevel | undefined
  readonly idempotencyKey?: string | undefined
  readonly requestId: string
  /** How long to wait for the decision. */
  readonly waitMs?: number
  readonly signal?: AbortSignal
}

export type ProposedAction = ActionAnswer & { readonly command: StoredCommand; readonly isNew: boolean }

/** The first turn of a command comes within milliseconds where a worker is free; a request is not held longer than this. */
const WAIT_MS = 5_000
/** More people than this are not asked about one command. */
const GATES_MAX = 50

/** For whom the agent acts; without somebody it has no rights at all. */
export type ActingFor = Actor & { readonly principal: Principal }

export async function proposeAction(
  deps: CommandDeps,
  by: ActingFor,
  input: ProposeAction,
): Promise<Decision<ProposedAction>> {
  const { workspaceId, toolName, payload, requestId, idempotencyKey, riskLevel } = input
  // An agent of an administrator is not an operator: it may ask for what they may ask for, and decide nothing.
  const agent = { ...by, kind: 'user' as const }
  const tool = findTool(deps.catalog, toolName)
  if (!tool.ok) return rejectRequest(deps, agent, { workspaceId, taskName: toolName, ingress: 'agent_action' }, tool)
  const { spec } = tool.value
  // Before it gets its prefix, behind which an empty one would be a key like any other.
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
  const { command, isNew } = submitted.value
  const of = { workspaceId, commandId: command.command_id }
  const signal = input.signal ?? new AbortController().signal
  const standing = await awaitDecision(deps, of, input.waitMs ?? WAIT_MS, signal)
  if (!standing) return refuseMissing()
  return accept({ ...decideAnswer(standing, await listGates(deps, by.principal, of)), command, isNew })
}

/** The questions about the command itself; one about the outcome of an effect is no gate. */
async function listGates(
  { db }: Pick<CommandDeps, 'db'>,
  principal: Principal,
  of: { readonly workspaceId: string; readonly commandId: string },
): Promise<readonly Gate[]> {
  const { items } = await listApprovals(db, principal, { ...of, status: 'all', limit: GATES_MAX })
  // Those of an earlier round, which a later one replaced, hold nothing back.
  return items.filter(({ domain_effect_id, superseded_by }) => domain_effect_id === null && superseded_by === null)
}
