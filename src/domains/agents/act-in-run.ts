/**
 * An action of an agent that is outside of Concord, under its run: a step and a command like a call of an answer. The answer of the request is the decision;
 * the agent follows the command for the rest.
 */
import { COMMAND_KIND, proposeInRun, readAction } from '#domains/commands'
import type { Principal } from '#domains/identity'
import type { AgentActionType } from '#kernel/agent-step'
import { encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { statement, type Tx } from '#store'
import { appendMessages } from './agent-message.ts'
import { findRunOfCommand, getAgentRun, lockRun, type StoredAgentRun } from './agent-run.ts'
import type { AgentCall } from './agent-runtime.ts'
import { referToContent } from './call-content.ts'
import type { AgentDeps } from './deps.ts'
import { actionOf, measure, toolOf } from './observe-call.ts'
import { findOpenAnswer, readSituation } from './read-run.ts'
import { writeOwnStep } from './write-run.ts'

/** `messages`: they show what the run has read as its requester. */
type Looking = 'row' | 'messages' | 'act'

/** A person sees every run of the workspace; its messages and its actions belong to the requester. An agent sees the runs that its own key started. */
export async function getReadableRun(
  { commands: { db } }: AgentDeps,
  { userId, role, agent }: Principal,
  workspaceId: string,
  agentRunId: string,
  looking: Looking,
): Promise<Decision<StoredAgentRun>> {
  const run = await getAgentRun(db, workspaceId, agentRunId)
  if (!run.ok) return run
  const { requested_by, context } = (await readSituation(db, run.value)).origin
  const isRequester = requested_by === `user:${userId}`
  if (agent && (!isRequester || context.agent !== agent.name))
    return refuse('agents.run.not_found', 'There is no such agent run.')
  if (looking === 'row' || isRequester || (looking === 'messages' && role === 'admin')) return run
  return refuse('agents.run.not_yours', 'Only the requester of this run may do this.')
}

type ActInRun = {
  readonly workspaceId: string
  readonly agentRunId: string
  readonly requestId: string
  readonly action_type: string
  readonly tool_name?: string | undefined
  readonly payload: JsonObject
  readonly reason: string
  readonly idempotency_key?: string | undefined
}

/** $1 run, $2 key. */
const findStep = statement<Taken & { readonly digest: string }>(
  'agents.find_step_by_key',
  `select m.step_index as "stepIndex", m.metadata->>'command_id' as "commandId", m.metadata->>'action_digest' as digest from concord.agent_messages as m
where m.agent_run_id = $1::uuid and m.metadata->>'action_key' = $2`,
)

/** A request is not held longer for the decision. */
const WAIT_MS = 5_000
/** Of the only call in the message of an action. */
const CALL_ID = 'action'

export async function actInRun(deps: AgentDeps, principal: Principal, input: ActInRun) {
  const { workspaceId, agentRunId } = input
  const run = await getReadableRun(deps, principal, workspaceId, agentRunId, 'act')
  if (!run.ok) return run
  const call: AgentCall = {
    id: CALL_ID,
    actionType: input.action_type as AgentActionType,
    toolName: input.tool_name ?? null,
    payload: input.payload,
    reason: input.reason,
  }
  // A refusal is on record, so it is committed.
  const { taken } = await deps.commands.db.transaction(async (tx) => ({
    taken: await takeStep(deps, tx, principal, input, call),
  }))
  if (!taken.ok) return taken
  // A submit inside a transaction tells no worker of the commit. The command is due in any case.
  if (taken.value.isNew)
    await deps.commands.wake({ kind: COMMAND_KIND, id: taken.value.commandId }).catch(() => undefined)
  const decided = await decisionOf(deps, principal, workspaceId, taken.value, toolOf(call))
  if (decided.ok && taken.value.isNew) await tellRun(deps, run.value, taken.value.commandId, decided.value)
  return decided
}

type Taken = { readonly stepIndex: number; readonly commandId: string; readonly isNew?: boolean }

/** One commit holds the step, its message with the key of the request, and the command. A repeat finds the step, whatever became of the run. */
async function takeStep(
  deps: AgentDeps,
  tx: Tx,
  { role: roleMax }: Principal,
  { workspaceId, agentRunId, requestId, idempotency_key }: ActInRun,
  call: AgentCall,
): Promise<Decision<Taken>> {
  const { commands } = deps
  const [run] = await tx.run(lockRun, [agentRunId, workspaceId])
  if (!run) return refuse('agents.run.not_found', 'There is no such agent run.')
  const key = idempotency_key === undefined ? undefined : measure(idempotency_key).digest
  const [known] = key === undefined ? [] : await tx.run(findStep, [agentRunId, key])
  const [action_type, tool_name] = [actionOf(call), toolOf(call)]
  const { digest } = measure([action_type, tool_name, call.payload])
  if (known) return known.digest === digest ? accept(known) : refuseReused(known)
  const { origin, messages } = await readSituation(tx, run)
  const stepIndex = run.step_count
  if (run.end_reason === null && findOpenAnswer({ run, messages }))
    return refuse('agents.run.busy', 'The calls of its last answer have not ended.')
  if (run.end_reason === null && stepIndex >= run.max_steps)
    return refuse('agents.run.no_steps', 'The run has no steps left.')
  const agent_message_id = commands.newId()
  const payload = referToContent(call, { agent_message_id })
  if (!payload.ok) return refuse('agents.call.invalid', payload.reason, { path: 'payload' })
  const proposed = await proposeInRun(
    commands,
    { workspaceId, agentRunId, stepIndex, requestId, tx, roleMax },
    { actionType: action_type, toolName: tool_name ?? '', payload: payload.value, reason: call.reason },
  )
  if (!proposed.ok) return proposed
  const { command_id: commandId } = proposed.value.command
  await writeOwnStep(
    tx,
    { ...commands, traceId: origin.context.trace_id },
    run,
    {
      agent_run_id: agentRunId,
      step_index: stepIndex,
      action_type,
      tool_name,
      action_payload: measure(call.payload),
      // Nobody has decided yet: the command has the decision and the outcome.
      decision: 'pending',
      created_command_id: commandId,
    },
    {
      agent_message_id,
      turn: messages[0]?.turn ?? 0,
      message_role: 'agent',
      message_type: 'answer',
      stepIndex,
      content: { text: null, calls: [call], final: null } as unknown as JsonObject,
      metadata: { command_id: commandId, ...(key !== undefined && { action_key: key, action_digest: digest }) },
    },
  )
  return accept({ stepIndex, commandId, isNew: true })
}

const refuseReused = ({ commandId }: Taken) =>
  refuse('key_reused', 'This key was used before for another action.', {
    path: 'idempotency_key',
    facts: { command_id: encodeId('command', commandId) },
  })

/** The agent of the run learns what came of the action. */
async function tellRun(
  { commands: { db, newId, now } }: AgentDeps,
  { agent_run_id, workspace_id }: StoredAgentRun,
  command_id: string,
  content: JsonObject,
): Promise<void> {
  await db.transaction(async (tx) => {
    const [run] = await tx.run(lockRun, [agent_run_id, workspace_id])
    if (!run || run.end_reason !== null) return
    const metadata = { command_id }
    const said = { turn: 0, message_role: 'agent', message_type: 'observation', content, metadata } as const
    await appendMessages(tx, newId, run, [said], now())
  })
}

/** Each a look for the child. */
const CHILD_TRIES = 100
const CHILD_MS = 20

/** The first effect of an allowed spawn inserts the child, shortly after the decision. Undefined: it was denied there, or takes longer. */
async function awaitChild({ db, sleep }: AgentDeps['commands'], commandId: string) {
  const { signal } = new AbortController()
  for (let tries = 0; tries < CHILD_TRIES; tries++) {
    const child = await findRunOfCommand(db, commandId)
    if (child) return child
    await sleep(CHILD_MS, signal)
  }
}

const words = {
  allow: 'allowed',
  route: 'allowed',
  deny: 'denied',
  require_approval: 'require_approval',
  escalate: 'require_approval',
  require_more_input: 'require_more_input',
  delay: 'pending',
} as const

async function decisionOf(
  { commands }: AgentDeps,
  principal: Principal,
  workspaceId: string,
  { commandId, stepIndex: step_index }: Taken,
  toolName: string | null,
) {
  const answer = await readAction(commands, principal, { workspaceId, commandId, waitMs: WAIT_MS })
  if (!answer.ok) return answer
  const { decision, approvalId, status, reasons, output } = answer.value
  const result = (output ?? null) as JsonValue
  const isStarted = toolName === 'spawn_subagent' && (decision === 'allow' || decision === 'route')
  const child = isStarted ? await awaitChild(commands, commandId) : undefined
  return accept({
    decision: decision === null ? ('pending' as const) : words[decision],
    command_id: encodeId('command', commandId),
    approval_id: approvalId === null ? null : encodeId('approval', approvalId),
    child_agent_run_id: child ? encodeId('agent_run', child.agent_run_id) : null,
    step_index,
    status,
    reasons: [...reasons],
    output: result,
  })
}
