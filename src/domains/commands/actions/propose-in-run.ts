/**
 * Submits a call of a run as a command. The only place that names a run on a command: the run, its requester and its scope are read here, and nothing of
 * them comes from the agent.
 */
import type { PlatformRole } from '#domains/identity'
import type { AgentActionType } from '#kernel/agent-step'
import type { Actor } from '#kernel/actor'
import { agentKey } from '#kernel/idempotency-key'
import type { JsonObject } from '#kernel/json-value'
import { nearestNames } from '#kernel/nearest'
import type { RiskLevel } from '#kernel/policy/policy'
import { type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import type { Process } from '#runtime'
import type { Tx } from '#store'
import { reasonOf } from '../cancel-command.ts'
import { RUN_KIND } from '../command-table.ts'
import type { CommandDeps } from '../deps.ts'
import type { FactSources } from '../facts.ts'
import type { CommitEnded } from '../inline.ts'
import { standingOf } from '../labels.ts'
import { rejectRequest, submitCommand, type SubmittedCommand } from '../submit.ts'
import { findTool } from './find-tool.ts'
import { type ActingRun, findActingRun, refuseRunEnded, scopeOf } from './run-authority.ts'

export type StepInRun = {
  readonly workspaceId: string
  readonly agentRunId: string
  /** The same step again is the same command. */
  readonly stepIndex: number
  readonly requestId: string
  /** What proposes for the run, such as its swarm: it is woken instead of the run, and the step is one of its own. */
  readonly process?: Process | undefined
  /** Inserts the command in this transaction of the caller, who holds the lock of the run. All of the request is in it: it takes no second connection. */
  readonly tx?: Tx | undefined
  readonly commitEnded?: CommitEnded | undefined
  /** Of the key with which an action comes from outside; the call has no more. */
  readonly roleMax?: PlatformRole | undefined
}

export type RunAction = {
  readonly actionType: AgentActionType
  readonly toolName: string
  readonly payload: JsonObject
  readonly reason: string
  /** The agent's own estimate; ignored below the level of the tool. */
  readonly riskLevel?: RiskLevel | undefined
}

/** Does not wait for the decision: the run is woken. A tool outside the scope of the run is refused, and the refusal is on record. */
export async function proposeInRun(
  given: CommandDeps,
  { workspaceId, agentRunId, stepIndex, requestId, tx, commitEnded, roleMax, ...of }: StepInRun,
  { actionType, toolName, payload, reason, riskLevel }: RunAction,
): Promise<Decision<SubmittedCommand>> {
  const { process = { kind: RUN_KIND, id: agentRunId } } = of
  const deps = tx ? { ...given, db: { ...given.db, ...tx } } : given
  const run = await findActingRun(deps, workspaceId, agentRunId, roleMax)
  if (!run) return refuse('agents.run.not_found', 'There is no such agent run.')
  const by = actorOf(run)
  const reject = (refusal: Refusal, taskName: string) =>
    rejectRequest(deps, by, { workspaceId, taskName, ingress: 'agent_action' }, refusal)
  if (!run.is_at_work) return reject(refuseRunEnded(run), toolName)
  const tool = findTool(deps.catalog, toolName)
  if (!tool.ok) return reject(refuseOutside(run, toolName, []), toolName)
  const scope = scopeOf(deps.catalog, run, tool.value)
  if (scope.gaps.length > 0) return reject(refuseOutside(run, toolName, scope.gaps), toolName)
  const { spec } = tool.value
  // A decision in this request need not read the same rows again. A later one reads them.
  const facts: FactSources = {
    ...deps.facts,
    agent_scope: async () => scope,
    agent_standing: async (_, command) => standingOf(deps.catalog, command, run),
  }
  return submitCommand({ ...deps, facts }, by, {
    workspaceId,
    taskName: spec.name,
    payload,
    idempotencyKey: agentKey(process.id, stepIndex),
    ingress: 'agent_action',
    requestId,
    runAs: 'agent',
    run: { agentRunId, swarmRunId: run.swarm_run_id },
    follower: process,
    tx,
    commitEnded,
    metadata: {
      action_type: actionType,
      tool_name: toolName,
      reason: reasonOf(reason),
      risk_level: riskLevel ?? spec.risk_level,
      step_index: stepIndex,
      agent_name: run.agent_name,
    },
  })
}

/** A run acts as its requester, who is never an operator there. */
function actorOf({ requested_by, context, principal }: ActingRun): Actor {
  return { id: requested_by, kind: 'user', traceId: context.trace_id, ...(principal ? { principal } : {}) }
}

/** A task that the run may not see is as unknown as one that does not exist. */
function refuseOutside({ own }: ActingRun, toolName: string, gaps: readonly string[]): Refusal {
  const near = nearestNames(toolName, own.tools)
  return refuse(
    'agents.tool.outside_scope',
    `The run may not use the tool ${quote(toolName)}. ${gaps.join(' ')}`.trim(),
    {
      path: 'tool_name',
      ...(near.length > 0 && { hint: `Did you mean ${near.map((name) => `\`${name}\``).join(' or ')}?` }),
      facts: { tools: own.tools },
    },
  )
}
