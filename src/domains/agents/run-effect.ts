/** The effect `agent.run`: it starts a run, and the command waits for the end of the run. */
import {
  DELEGATION,
  defineEffect,
  type Definition,
  type EffectCall,
  EffectFailure,
  EffectPending,
  readCommand,
} from '#domains/commands'
import { bySystem } from '#kernel/actor'
import { attemptKindOf } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { statement } from '#store'
import { AGENT_RUN, type AgentResult } from './agent-definition.ts'
import { findRunOfCommand, hasEnded, insertAgentRun, requestRunCancel, type StoredAgentRun } from './agent-run.ts'
import { ends } from './advance-run.ts'
import { type AgentDeps, RUN_KIND } from './deps.ts'
import { envelopeDefinitions } from './envelope.ts'
import { proposeMemoryDefinitions } from './propose-memory.ts'
import { raiseBudgetDefinitions } from './raise-budget.ts'
import { defineRun } from './define-run.ts'
import { agentToolDefinitions } from './tools.ts'

/** `deps` is called by the first run, because the catalog opens before the room. */
export function agentDefinitions(deps: () => AgentDeps): readonly Definition[] {
  return [
    ...agentToolDefinitions(deps),
    ...proposeMemoryDefinitions(deps),
    ...raiseBudgetDefinitions(deps),
    ...envelopeDefinitions(deps),
    defineEffect({
      effect_type: AGENT_RUN,
      class: 'queryable',
      outward: false,
      do: (call) => start(deps(), call),
      find: (call) => findRunEnd(deps(), call),
    }),
  ]
}

/** As the function of an agent plans it. */
type AgentPayload = { readonly agent: string; readonly input: JsonObject }

/** A run of this command that has not ended goes on: it was started by an attempt that was interrupted, or with an invocation. */
async function start(deps: AgentDeps, call: EffectCall): Promise<never> {
  const { db } = deps.commands
  const known = await findRunOfCommand(db, call.commandId)
  if (known && !hasEnded(known)) throw EffectPending.ofProcess(RUN_KIND, known.agent_run_id)
  const told = await refuseInRun(deps, call)
  const { agent: name, input } = call.payload as AgentPayload
  const agent = deps.agents.get(name)
  if (!agent) throw new EffectFailure('validation_error', `The project has no agent ${name}.`, 'no')
  const defined = defineRun(deps, agent, input)
  if (!defined.ok) throw new EffectFailure('validation_error', defined.reason, 'no')
  const { workspaceId, commandId, requestedBy } = call
  const run = await db.transaction((tx) =>
    insertAgentRun(tx, deps.commands, bySystem(call.traceId), {
      ...defined.value,
      context: { ...defined.value.context, ...told },
      workspaceId,
      commandId,
      requestedBy,
    }),
  )
  throw EffectPending.ofProcess(RUN_KIND, run.agent_run_id)
}

/** Returns what the command says about its attempt. Throws if a run has proposed the command: a run below it must be its child, with its authority, budget and stop. */
export async function refuseInRun({ commands: { db } }: AgentDeps, call: EffectCall): Promise<JsonObject> {
  const command = await readCommand(db, call.workspaceId, call.commandId)
  if (!command.ok || command.value.command.agent_run_id !== null)
    throw new EffectFailure('permission_denied', DELEGATION, 'no')
  const { context, attempt } = command.value.command
  return tellAttempt(context.metadata, attempt)
}

/** An agent that does a task of a mission knows which attempt it is, and why the output before was refused. */
function tellAttempt(metadata: Readonly<Record<string, unknown>>, run: number): JsonObject {
  const { attempt: first, feedback } = metadata
  if (typeof first !== 'number') return {}
  const attempt = first - 1 + run
  const refused_because = typeof feedback === 'string' ? feedback : null
  return { mission_attempt: { kind: attemptKindOf(attempt, 0), attempt, refused_because } }
}

/** The end of the run of a command: its result, or why it failed. A cancel of the command reaches the run here. */
export async function findRunEnd(deps: AgentDeps, call: EffectCall) {
  const { db } = deps.commands
  const run = await findRunOfCommand(db, call.commandId)
  if (!run) return { found: false } as const
  if (!hasEnded(run)) {
    await passCancel(deps, call, run)
    return { found: false } as const
  }
  if (run.status === 'succeeded') return { found: true, result: await resultOf(deps, run) } as const
  const reason = run.end_reason ?? 'failed'
  const why = run.metadata.error ?? run.metadata.cancel?.why
  const message = `the agent run ended: ${reason.replaceAll('_', ' ')}${why === undefined ? '' : `. ${why}`}`
  throw new EffectFailure(ends[reason].errorClass ?? 'internal_error', message, 'no')
}

/** A cancel of the command reaches its run by the turn that the cancel wakes. */
async function passCancel(deps: AgentDeps, call: EffectCall, run: StoredAgentRun): Promise<void> {
  const { db } = deps.commands
  const command = await readCommand(db, call.workspaceId, call.commandId)
  if (!command.ok || !command.value.command.cancellation_requested || run.metadata.cancel) return
  const why = 'Its command was cancelled.'
  await db.transaction((tx) =>
    requestRunCancel(tx, deps.commands, bySystem(call.traceId), run, { reason: 'human_cancelled', why }),
  )
}

type Answer = { readonly agent_message_id: string; readonly digest: string }

/** $1 run. */
const findAnswer = statement<Answer>(
  'agents.find_answer',
  `select m.agent_message_id, m.digest from concord.agent_messages as m
where m.agent_run_id = $1::uuid and m.message_type = 'result' order by m.position desc limit 1`,
)
/** $1 run. */
const listArtifacts = statement<{ readonly artifact_id: string }>(
  'agents.list_artifacts',
  `select a.artifact_id from concord.artifacts as a where a.agent_run_id = $1::uuid order by a.artifact_id limit 1000`,
)

/** Ids and digests: the result of a command is kept for ever, and a message can be erased. */
async function resultOf({ commands: { db } }: AgentDeps, run: StoredAgentRun): Promise<AgentResult> {
  const [answer] = await db.run(findAnswer, [run.agent_run_id])
  const artifacts = await db.run(listArtifacts, [run.agent_run_id])
  return {
    agent_run_id: encodeId('agent_run', run.agent_run_id),
    end_reason: run.end_reason ?? 'failed',
    answer: answer
      ? { agent_message_id: encodeId('agent_message', answer.agent_message_id), digest: answer.digest }
      : null,
    artifact_ids: artifacts.map(({ artifact_id }) => encodeId('artifact', artifact_id)),
  }
}
