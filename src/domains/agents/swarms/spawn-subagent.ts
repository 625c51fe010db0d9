/**
 * The shipped task Spawn Subagent: a run starts a child run within its own authority. Two effects: the invocation with the child run, counted under the lock
 * of the swarm; then its run, for which the command waits. The undo of the first undoes what the child did.
 */
import type { z } from 'zod'
import {
  defineCommandType,
  defineEffect,
  defineFunction,
  definePolicy,
  defineTask,
  type Definition,
  type EffectCall,
  EffectFailure,
  EffectPending,
  type FactSources,
} from '#domains/commands'
import { amountOf, freeOf, readAccount } from '#domains/budgets'
import { bySystem } from '#kernel/actor'
import { decideSpawn, type SpawnDecision } from '#kernel/agents/spawn'
import { errorClasses } from '#kernel/error-classes'
import { agentKey } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { type Money, zeroMoney } from '#kernel/money'
import type { PolicyRule } from '#kernel/policy/policy'
import { failpoint, type Sql, statement, type Tx } from '#store'
import { appendMessages } from '../agent-message.ts'
import { findRunOfCommand, hasEnded, insertAgentRun, runTable, type StoredAgentRun } from '../agent-run.ts'
import { type AgentDeps, RUN_KIND } from '../deps.ts'
import { deadlineAfter, earlier } from '../limits.ts'
import { findRunEnd } from '../run-effect.ts'
import { resolveTools } from '../run-tools.ts'
import { agentTerms, childRolesOf, spawnRequest } from './swarm-definition.ts'
import { countSpawns, insertInvocation, lockSwarm, type StoredSwarmRun, swarmTable } from './swarm-run.ts'
import { findUndone, runIn, undoRun } from './undo-run.ts'

const TYPE = 'spawn_subagent'
const SPAWN = 'agent.spawn'
const UNDO = 'agent.spawn_undo'
const AWAIT = 'agent.spawn_run'

type SpawnPayload = z.output<typeof spawnRequest>

const deny = (...reasons: string[]): SpawnDecision => ({ decision: 'denied', reasons })

type Judged = SpawnDecision & { readonly parent?: StoredAgentRun; readonly swarm?: StoredSwarmRun }

/** What policy records, and what the effect decides again under the lock of the swarm. */
async function judgeSpawn(
  sql: Sql,
  workspaceId: string,
  parentId: string | null,
  payload: SpawnPayload,
  at: Date,
  locked?: StoredSwarmRun,
): Promise<Judged> {
  const parent = parentId === null ? undefined : await runTable.find(sql, workspaceId, parentId)
  if (!parent) return deny('Only a run of an agent can start a child.')
  if (parent.swarm_run_id === null) return deny('The run belongs to no swarm.')
  const swarm = locked ?? (await swarmTable.find(sql, workspaceId, parent.swarm_run_id))
  if (!swarm) return deny('The run belongs to no swarm.')
  const isOwn = (kind: 'agent_run' | 'swarm_run', id: string | undefined, own: string) =>
    id === undefined || id === encodeId(kind, own)
  if (
    !isOwn('agent_run', payload.parent_agent_run_id, parent.agent_run_id) ||
    !isOwn('swarm_run', payload.swarm_run_id, swarm.swarm_run_id)
  )
    return deny('A run can start children only for itself, in its own swarm.')
  if (hasEnded(parent) || hasEnded(swarm) || swarm.end_reason !== null || swarm.status === 'cancelling')
    return deny('The run or its swarm is about to end.')
  const { max_cost_units: units, deadline_minutes: minutes } = payload
  const asked = {
    ...payload,
    max_cost: units === null ? null : amountOf(String(units)),
    deadline_at: deadlineAfter(at, minutes),
  }
  const above = {
    ...parent,
    allowed_child_roles: childRolesOf(parent),
    cost_left: units === null ? null : await findCostLeft(sql, parent),
    deadline_at: earlier(parent.deadline_at, swarm.deadline_at),
  }
  return { ...decideSpawn(asked, above, await countSpawns(sql, swarm)), parent, swarm }
}

async function findCostLeft(sql: Sql, { workspace_id, budget_account_id }: StoredAgentRun): Promise<Money | null> {
  if (budget_account_id === null) return null
  const account = await readAccount(sql, workspace_id, budget_account_id)
  return account.ok ? freeOf(account.value) : zeroMoney
}

/** The decision about a spawn, for policy. */
export const spawnFacts: FactSources = {
  spawn: async ({ db, now }, { workspace_id, agent_run_id, payload }) => {
    const parsed = spawnRequest.safeParse(payload)
    if (!parsed.success) return null
    const { decision, reasons } = await judgeSpawn(db, workspace_id, agent_run_id, parsed.data, now())
    return { decision, reasons }
  },
}

const rule: PolicyRule = {
  name: 'spawn_scope',
  category: 'agent_spawn',
  actions: '*',
  decide({ context }) {
    const facts = (context['facts'] ?? {}) as JsonObject
    const spawn = facts['spawn'] as SpawnDecision | null | undefined
    if (spawn?.decision === 'allowed') return { decision: 'allow' }
    return { decision: 'deny', reasons: [...(spawn?.reasons ?? ['The request is not complete.'])] }
  },
}

/** Wraps a decision that was allowed before and is denied under the lock: another spawn was faster. */
function refuseSpawn({ reasons }: SpawnDecision): EffectFailure {
  return new EffectFailure('policy_denied', reasons.join(' '), 'no')
}

async function spawn(deps: AgentDeps, call: EffectCall): Promise<JsonObject> {
  const { commands } = deps
  const payload = spawnRequest.parse(call.payload['request'])
  const [proposal] = await commands.db.run(findProposal, [call.commandId])
  const { agent_run_id: parentId = null, idempotency_key: key = null } = proposal ?? {}
  const judged = await judgeSpawn(commands.db, call.workspaceId, parentId, payload, commands.now())
  if (judged.decision === 'denied' || !judged.swarm) throw refuseSpawn(judged)
  const { swarm_run_id: swarmRunId } = judged.swarm
  const tools = resolveTools(deps, payload.allowed_tools)
  if (!tools.ok) throw new EffectFailure('validation_error', tools.reason, 'no')
  const child = commands.newId()
  const by = bySystem(call.traceId)
  const insert = async (tx: Tx) => {
    const locked = await lockSwarm(tx, swarmRunId)
    const again = await judgeSpawn(tx, call.workspaceId, parentId, payload, commands.now(), locked)
    const { parent, swarm } = again
    if (again.decision === 'denied' || !parent || !swarm) throw refuseSpawn(again)
    const run = await insertAgentRun(tx, commands, by, {
      agentRunId: child,
      workspaceId: call.workspaceId,
      commandId: call.commandId,
      terms: agentTerms(swarm.definition, payload, parent),
      tools: tools.value,
      goal: payload.delegated_goal,
      context: payload.context_scope,
      memoryScope: payload.memory_scope,
      requestedBy: call.requestedBy,
      parent,
      swarmRunId,
    })
    const { constraints } = payload
    await insertInvocation(tx, commands, by, run, { invocation_type: typeOf(swarm, key), constraints })
    await appendMessages(tx, commands.newId, run, [instruction(constraints)], run.created_at)
  }
  call.alongside(insert, { child_agent_run_id: child })
  return { child_agent_run_id: encodeId('agent_run', child) }
}

/** What the parent tells the child beside its goal. */
export const instruction = (constraints: JsonObject) =>
  ({ turn: 0, message_role: 'agent', message_type: 'instruction', content: constraints }) as const

/** An agent of the plan is proposed under a key of the swarm; every other child is spawned by its parent. */
function typeOf({ swarm_run_id, plan }: StoredSwarmRun, key: string | null) {
  const planned = plan?.find((_, index) => key === agentKey(swarm_run_id, index))
  return planned?.invocation_type ?? 'spawn'
}

/** $1 command. */
const findProposal = statement<{ readonly agent_run_id: string | null; readonly idempotency_key: string | null }>(
  'swarms.find_proposal',
  `select c.agent_run_id, c.idempotency_key from concord.commands as c where c.command_id = $1::uuid`,
)

async function awaitChild(deps: AgentDeps, call: EffectCall): Promise<never> {
  const run = await findRunOfCommand(deps.commands.db, call.commandId)
  if (!run) throw new EffectFailure('internal_error', 'The child run does not exist.', 'no')
  await failpoint('agents.spawned')
  throw EffectPending.ofProcess(RUN_KIND, run.agent_run_id)
}

export function spawnDefinitions(deps: () => AgentDeps): readonly Definition[] {
  return [
    definePolicy(rule, { facts: Object.keys(spawnFacts) }),
    defineEffect({
      effect_type: SPAWN,
      class: 'keyed',
      outward: false,
      do: (call) => spawn(deps(), call),
      undo: {
        name: UNDO,
        class: 'queryable',
        do: (call) => undoRun(deps(), call, runIn(call, 'child_agent_run_id'), UNDO),
        find: (call) => findUndone(deps(), call, runIn(call, 'child_agent_run_id')),
      },
    }),
    defineEffect({
      effect_type: AWAIT,
      class: 'queryable',
      outward: false,
      do: (call) => awaitChild(deps(), call),
      find: (call) => findRunEnd(deps(), call),
    }),
    defineFunction({
      name: TYPE,
      plan: (request) => [
        { effect_type: SPAWN, payload: { request } },
        { effect_type: AWAIT, payload: {} },
      ],
      result: ([spawned, result]) => ({ ...(spawned as JsonObject), ...(result as JsonObject) }),
    }),
    defineCommandType({
      name: TYPE,
      description: 'Starts a child agent within the authority of the agent that asks.',
      payload: spawnRequest,
      side_effects: [SPAWN, AWAIT],
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
      compensation: { supported: true },
    }),
    defineTask({
      name: 'Spawn Subagent',
      description: 'Starts a child agent. It can do at most what you can do.',
      command_type: TYPE,
      function_name: TYPE,
      ingress_types: ['agent_action'],
      async_required: true,
      policy_checks: ['permission', rule.name],
    }),
  ]
}
