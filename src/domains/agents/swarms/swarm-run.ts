/** A swarm run and the invocations of its agents: rows, statements, inserts, reads. */
import { SWARM_KIND } from '#domains/commands'
import type { Actor } from '#kernel/actor'
import type { AgentStep } from '#kernel/agent-step'
import type { Joined } from '#kernel/agents/join-input'
import type { SpawnCounts } from '#kernel/agents/spawn'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { agentInvocationMachine, swarmRunMachine } from '#kernel/machines/agent'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Db, defineTable, insertRecord, pageText, type Paged, scoped, type Sql, statement, type Tx } from '#store'
import type { RowOf } from '#store/rows'
import { openReconcile } from '#turns'
import type { StoredAgentRun } from '../agent-run.ts'
import type { AgentDeps } from '../deps.ts'
import { deadlineAfter } from '../limits.ts'
import type { SwarmTerms } from './swarm-definition.ts'
import { swarmLog } from './swarm-events.ts'
import type { PlannedAgent } from './swarm-planner.ts'

export { SWARM_KIND } from '#domains/commands'
export const SWARM_QUEUE = 'swarm_children'

export const invocationTypes = ['spawn', 'delegate', 'review', 'evaluate'] as const

type StoredJoin = Joined & { readonly losers: readonly string[] }

export type StoredSwarmRun = RowOf<
  'concord.swarm_runs',
  {
    readonly definition: SwarmTerms
    readonly plan: readonly PlannedAgent[] | null
    readonly joined: StoredJoin | null
    readonly metadata: { readonly input?: JsonObject }
  }
>
export type SwarmEndReason = NonNullable<StoredSwarmRun['end_reason']>

export type StoredAgentInvocation = RowOf<
  'concord.agent_invocations',
  {
    readonly constraints: JsonObject
    readonly allowed_tools: readonly string[]
    readonly allowed_connectors: readonly string[]
    readonly memory_scope: JsonObject
    readonly context_scope: JsonObject
  }
>

const TABLE = 'concord.swarm_runs'
const INVOCATIONS = 'concord.agent_invocations'
export const OPEN_SWARM = 't.completed_at is null and t.cancelled_at is null'

export const swarmTable = defineTable<StoredSwarmRun>()({
  name: TABLE,
  noun: 'swarm_run',
  id: 'swarm_run_id',
  tenant: 'workspace_id',
  machine: swarmRunMachine,
  state: 'status',
  log: swarmLog,
  links: ['workspace_id', 'command_id', 'swarm_run_id'],
})

const invocationTable = defineTable<StoredAgentInvocation>()({
  name: INVOCATIONS,
  noun: 'agent_invocation',
  id: 'invocation_id',
  tenant: 'workspace_id',
  machine: agentInvocationMachine,
  state: 'status',
  log: swarmLog,
  links: ['workspace_id', 'command_id', 'swarm_run_id'],
})

export async function getSwarmRun(sql: Sql, workspaceId: string, id: string): Promise<Decision<StoredSwarmRun>> {
  const found = await swarmTable.find(sql, workspaceId, id)
  return found ? accept(found) : refuse('agents.swarm.not_found', 'There is no such swarm.')
}

/** $1 command. The newest first: a retry of the command starts another swarm. */
const findOfCommand = statement<StoredSwarmRun>(
  'swarms.find_of_command',
  `select t.* from ${TABLE} as t where t.command_id = $1::uuid order by t.created_at desc, t.swarm_run_id desc limit 1`,
)

export async function findSwarmOfCommand(sql: Sql, commandId: string): Promise<StoredSwarmRun | undefined> {
  const [swarm] = await sql.run(findOfCommand, [commandId])
  return swarm
}

/** $1 swarm. */
const lockSwarmRow = statement<StoredSwarmRun>(
  'swarms.lock',
  `select t.* from ${TABLE} as t where t.swarm_run_id = $1::uuid for update`,
)

/** Every spawn in a swarm holds this lock, and every write of it. */
export async function lockSwarm(tx: Tx, swarmRunId: string): Promise<StoredSwarmRun | undefined> {
  const [swarm] = await tx.run(lockSwarmRow, [swarmRunId])
  return swarm
}

/** $1 swarm, $2 token. */
export const lockHeldSwarm = statement<StoredSwarmRun>(
  'swarms.lock_held',
  `select t.* from ${TABLE} as t where t.swarm_run_id = $1::uuid and t.turn_token = $2::uuid for update`,
)

/** $1 swarm, $2 plan, $3 join, $4 reason; null: unchanged. */
export const writeOutcome = statement<StoredSwarmRun>(
  'swarms.write_outcome',
  `update ${TABLE} as t set plan = coalesce($2::jsonb, t.plan), joined = coalesce($3::jsonb, t.joined), end_reason = coalesce($4, t.end_reason)
where t.swarm_run_id = $1::uuid returning t.*`,
)

/** $1 swarm, $2 token, $3 due at. */
export const releaseSwarm = statement<{ readonly id: string }>(
  'swarms.release_turn',
  `update ${TABLE} as t set turn_token = null, turn_until = null, run_after = $3
where t.swarm_run_id = $1::uuid and t.turn_token = $2::uuid returning t.swarm_run_id as id`,
)

/** $1 swarm. Runs that have ended keep the steps that they took. */
const countRuns = statement<{ readonly agents: number; readonly steps: number }>(
  'swarms.count_runs',
  `select count(*)::int as agents, coalesce(sum(case when r.completed_at is null and r.cancelled_at is null then r.max_steps else r.step_count end), 0)::int as steps
from concord.agent_runs as r where r.swarm_run_id = $1::uuid`,
)

/** Exact only under the lock of the swarm. */
export async function countSpawns(sql: Sql, swarm: StoredSwarmRun): Promise<SpawnCounts> {
  const [counted] = await sql.run(countRuns, [swarm.swarm_run_id])
  return {
    maxDepth: swarm.max_depth,
    maxAgents: swarm.max_agents,
    agentCount: counted?.agents ?? 0,
    maxTotalSteps: swarm.max_total_steps,
    stepsTaken: counted?.steps ?? 0,
  }
}

export async function insertSwarmRun(
  tx: Tx,
  { now, newId }: Pick<AgentDeps['commands'], 'now' | 'newId'>,
  by: Actor,
  of: {
    readonly workspaceId: string
    readonly commandId: string
    readonly terms: SwarmTerms
    readonly input: JsonObject
  },
): Promise<StoredSwarmRun> {
  const { terms } = of
  const { deadline_minutes: minutes, ...limits } = terms.limits
  const at = now()
  const row = {
    ...limits,
    swarm_run_id: newId(),
    command_id: of.commandId,
    workspace_id: of.workspaceId,
    objective: terms.objective,
    execution_mode: terms.execution_mode,
    join_strategy: terms.join_strategy,
    metadata: { input: of.input },
    status: 'created',
    created_at: at,
    run_after: at,
    definition: terms,
    deadline_at: deadlineAfter(at, minutes),
  }
  const swarm = await insertRecord<StoredSwarmRun>(tx, TABLE, row)
  const payload = {
    objective_chars: terms.objective.length,
    limits,
    mode: terms.execution_mode,
    join: terms.join_strategy,
  }
  await swarmTable.append(tx, swarm, by, { type: 'swarm_started', at, newId, payload })
  return swarm
}

/** $1 swarm, $2 run. */
const setCoordinatorRow = statement<never>(
  'swarms.set_coordinator',
  `update ${TABLE} set coordinator_agent_run_id = $2::uuid where swarm_run_id = $1::uuid`,
)

export async function setCoordinator(tx: Tx, swarm: StoredSwarmRun, agentRunId: string): Promise<void> {
  await tx.run(setCoordinatorRow, [swarm.swarm_run_id, agentRunId])
}

type Invoked = Pick<StoredAgentInvocation, 'invocation_type' | 'constraints'>

/** What the parent asked of a child, with the child: it has the same id, and says what the run says. */
export async function insertInvocation(
  tx: Tx,
  { newId }: Pick<AgentDeps['commands'], 'newId'>,
  by: Actor,
  run: StoredAgentRun,
  { invocation_type, constraints }: Invoked,
): Promise<void> {
  const { agent_run_id: child_agent_run_id, parent_agent_run_id, spawn_depth, created_at } = run
  const invocation = await insertRecord<StoredAgentInvocation>(tx, INVOCATIONS, {
    invocation_id: run.invocation_id,
    swarm_run_id: run.swarm_run_id,
    parent_agent_run_id,
    child_agent_run_id,
    invocation_type,
    delegated_goal: run.goal,
    constraints,
    allowed_tools: run.allowed_tools,
    allowed_connectors: run.allowed_connectors,
    memory_scope: run.memory_scope,
    created_at,
    workspace_id: run.workspace_id,
    command_id: run.command_id,
    context_scope: run.context_scope,
    max_steps: run.max_steps,
    spawn_depth,
  })
  const payload = { child_agent_run_id, parent_agent_run_id, invocation_type, spawn_depth }
  await invocationTable.append(tx, invocation, by, { type: 'subagent_spawned', at: created_at, newId, payload })
}

/** An agent of a swarm. Null: the coordinator, of which no agent asked anything. */
export type SwarmAgentRun = StoredAgentRun & { readonly [Name in keyof Invoked]: Invoked[Name] | null }

/** $1 swarm. The coordinator first. */
const listRuns = statement<SwarmAgentRun>(
  'swarms.list_runs',
  `select t.*, i.invocation_type, i.constraints from concord.agent_runs as t left join ${INVOCATIONS} as i on i.child_agent_run_id = t.agent_run_id
where t.swarm_run_id = $1::uuid order by t.created_at, t.agent_run_id`,
)

export function listSwarmAgents(sql: Sql, swarmRunId: string): Promise<SwarmAgentRun[]> {
  return sql.run(listRuns, [swarmRunId])
}

/** $1 child run. */
const lockInvocationOf = statement<StoredAgentInvocation>(
  'swarms.lock_invocation',
  `select t.* from ${INVOCATIONS} as t where t.child_agent_run_id = $1::uuid for update`,
)

/** In the commit that begins or ends a run of a swarm: its invocation follows, and its end wakes the swarm. */
export async function followRun(
  tx: Tx,
  { newId, wake, traceId }: Pick<AgentDeps['commands'], 'newId' | 'wake'> & { readonly traceId: string },
  run: Pick<StoredAgentRun, 'agent_run_id' | 'invocation_id' | 'swarm_run_id'>,
  to: Exclude<StoredAgentInvocation['status'], 'created'>,
  at: Date,
): Promise<void> {
  const [invocation] = run.invocation_id === null ? [] : await tx.run(lockInvocationOf, [run.agent_run_id])
  if (invocation && invocation.status !== to) {
    const by = { id: 'system', kind: 'system' as const, traceId }
    const moved = await invocationTable.transition(tx, invocation, to, by, { at, newId })
    if (!moved.ok) throw new KernelFault('agents.invocation.moved', moved.reason)
  }
  if (run.swarm_run_id !== null && to !== 'running')
    await wake({ kind: SWARM_KIND, id: run.swarm_run_id }, { tx, queue: SWARM_QUEUE })
}

/** $1 commands. */
const listErrors = statement<{ readonly command_id: string; readonly error: string | null }>(
  'swarms.list_errors',
  `select c.command_id, c.error from concord.commands as c where c.command_id = any($1::uuid[])`,
)

/** In the commit of the steps of a run: each spawn that was denied, with every reason. */
export async function noteDeniedSpawns(
  tx: Tx,
  { newId, traceId }: Pick<AgentDeps['commands'], 'newId'> & { readonly traceId: string },
  run: { readonly agent_run_id: string; readonly swarm_run_id: string | null; readonly workspace_id: string },
  steps: readonly AgentStep[],
  at: Date,
): Promise<void> {
  const denied = steps.filter(({ action_type, decision }) => action_type === 'spawn_subagent' && decision === 'denied')
  const swarm =
    run.swarm_run_id === null || denied.length === 0
      ? undefined
      : await swarmTable.find(tx, run.workspace_id, run.swarm_run_id)
  if (!swarm) return
  const ids = denied.map(({ created_command_id: id }) => (typeof id === 'string' ? id : null))
  const errors = await tx.run(listErrors, [ids])
  for (const [index, { step_index }] of denied.entries()) {
    const command_id = ids[index] ?? null
    const reasons = errors.flatMap((each) =>
      each.command_id === command_id && each.error !== null ? [each.error] : [],
    )
    const payload = { agent_run_id: run.agent_run_id, step_index, command_id, reasons }
    await swarmTable.append(
      tx,
      swarm,
      { id: 'worker', kind: 'worker', traceId },
      { type: 'spawn_denied', at, newId, payload },
    )
  }
}

const listNewest = statement<StoredSwarmRun & Paged>(
  'swarms.list_newest',
  pageText(`select t.* from ${TABLE} as t
    where t.workspace_id = $1::uuid and ($2::uuid is null or t.swarm_run_id < $2) and ($4::text is null or t.status = $4)
    order by t.swarm_run_id desc limit $3`),
)

export function listSwarmRuns(
  db: Db,
  {
    workspaceId,
    beforeId,
    limit,
    status,
  }: { workspaceId: string; beforeId: string | null; limit: number; status?: string | undefined },
) {
  return scoped(db, workspaceId).read((tx) => tx.run(listNewest, [workspaceId, beforeId, limit, status ?? null]))
}

/** Wakes swarms that are due: their process died between a commit and a wake, or their deadline has passed. */
export const reconcileSwarms = openReconcile({
  room: 'swarms',
  table: TABLE,
  id: 'swarm_run_id',
  isOpen: OPEN_SWARM,
  kind: SWARM_KIND,
  queue: SWARM_QUEUE,
})
