/** The effect `swarm.run`: it starts a swarm with its coordinator, and the command waits for the end of the swarm. */
import { defineEffect, type Definition, type EffectCall, EffectFailure, EffectPending } from '#domains/commands'
import { bySystem } from '#kernel/actor'
import type { ErrorClass } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { failpoint } from '#store'
import { hasEnded, insertAgentRun } from '../agent-run.ts'
import type { AgentDeps } from '../deps.ts'
import { openRunAccount } from '../run-account.ts'
import { refuseInRun } from '../run-effect.ts'
import { resolveTools } from '../run-tools.ts'
import { agentTerms, delegableTools, SWARM_RUN } from './swarm-definition.ts'
import {
  findSwarmOfCommand,
  insertSwarmRun,
  type StoredSwarmRun,
  SWARM_KIND,
  SWARM_QUEUE,
  type SwarmEndReason,
  setCoordinator,
} from './swarm-run.ts'
import { findUndone, runIn, undoRun } from './undo-run.ts'

const UNDO = 'swarm.undo'

/** `deps` is called by the first swarm, because the catalog opens before the room. */
export function swarmDefinitions(deps: () => AgentDeps): readonly Definition[] {
  return [
    defineEffect({
      effect_type: SWARM_RUN,
      class: 'queryable',
      outward: false,
      do: (call) => start(deps(), call),
      find: (call) => findEnd(deps(), call),
      undo: {
        name: UNDO,
        class: 'queryable',
        do: (call) => undoRun(deps(), call, runIn(call, 'coordinator_agent_run_id'), UNDO),
        find: (call) => findUndone(deps(), call, runIn(call, 'coordinator_agent_run_id')),
      },
    }),
  ]
}

/** A swarm of this command that has not ended goes on: it was started by an attempt that was interrupted. */
async function start(deps: AgentDeps, call: EffectCall): Promise<never> {
  const { commands } = deps
  const known = await findSwarmOfCommand(commands.db, call.commandId)
  if (known && !hasEnded(known)) throw EffectPending.ofProcess(SWARM_KIND, known.swarm_run_id)
  await refuseInRun(deps, call)
  const { swarm: name } = call.payload
  const definition = typeof name === 'string' ? deps.swarms.get(name) : undefined
  if (!definition)
    throw new EffectFailure('validation_error', `The project has no swarm ${JSON.stringify(name)}.`, 'no')
  const { swarm: terms } = definition
  const { coordinator } = terms
  const tools = resolveTools(deps, coordinator.allowed_tools)
  const delegable = resolveTools(deps, delegableTools(terms))
  if (!tools.ok) throw new EffectFailure('validation_error', tools.reason, 'no')
  if (!delegable.ok) throw new EffectFailure('validation_error', delegable.reason, 'no')
  const input = call.payload['input'] as JsonObject
  const by = bySystem(call.traceId)
  const { workspaceId, commandId } = call
  const id = await commands.db.transaction(async (tx) => {
    const swarm = await insertSwarmRun(tx, commands, by, { workspaceId, commandId, terms, input })
    const { swarm_run_id: swarmRunId, created_at: at } = swarm
    const { max_cost_units: maxCostUnits } = terms.limits
    const of = { workspaceId, commandId, parentId: null, maxCostUnits, at }
    const account = await openRunAccount(tx, { ...of, runId: swarmRunId })
    if (!account.ok) throw new EffectFailure('permission_denied', account.reason, 'no')
    const run = await insertAgentRun(tx, commands, by, {
      workspaceId,
      commandId,
      accountId: account.value,
      terms: agentTerms(terms, coordinator),
      tools: tools.value,
      goal: terms.objective,
      context: input,
      memoryScope: coordinator.memory_scope,
      requestedBy: call.requestedBy,
      swarmRunId,
      delegableTools: delegable.value.map(({ name }) => name),
      isIdle: true,
    })
    await setCoordinator(tx, swarm, run.agent_run_id)
    await commands.wake({ kind: SWARM_KIND, id: swarmRunId }, { tx, queue: SWARM_QUEUE })
    return swarmRunId
  })
  await failpoint('agents.swarm_started')
  throw EffectPending.ofProcess(SWARM_KIND, id)
}

const classes: Readonly<Partial<Record<SwarmEndReason, ErrorClass>>> = {
  spawn_denied: 'policy_denied',
  max_cost_units: 'permission_denied',
  max_agents: 'validation_error',
  max_depth: 'validation_error',
  max_total_steps: 'validation_error',
  plan_refused: 'validation_error',
}

/** The join decides the outcome of the command. A cancel of the command wakes the swarm, which stops its agents first. */
async function findEnd({ commands }: AgentDeps, call: EffectCall) {
  const swarm = await findSwarmOfCommand(commands.db, call.commandId)
  if (!swarm) return { found: false } as const
  if (!hasEnded(swarm)) {
    await commands.wake({ kind: SWARM_KIND, id: swarm.swarm_run_id }, { queue: SWARM_QUEUE })
    return { found: false } as const
  }
  const { status, joined } = swarm
  if (joined && (status === 'succeeded' || status === 'partially_succeeded'))
    return { found: true, result: resultOf(swarm, status) } as const
  const reason = swarm.end_reason ?? 'stopped'
  const why = joined ? joined.summary : `reason: ${reason}`
  throw new EffectFailure(classes[reason] ?? 'validation_error', `the swarm ended ${status}: ${why}`, 'no')
}

function resultOf({ swarm_run_id, coordinator_agent_run_id, joined }: StoredSwarmRun, status: string): JsonObject {
  const selected = joined?.selected_artifact_id ?? null
  return {
    swarm_run_id: encodeId('swarm_run', swarm_run_id),
    coordinator_agent_run_id:
      coordinator_agent_run_id === null ? null : encodeId('agent_run', coordinator_agent_run_id),
    status,
    decision: joined?.decision ?? null,
    summary: joined?.summary ?? null,
    selected_artifact_id: selected === null ? null : encodeId('artifact', selected),
    confidence: joined?.confidence ?? null,
    requires_human_review: joined?.requires_human_review ?? null,
  }
}
