/**
 * What a run of an agent may do now: what its requester may do today, its role, every run above it and its own row permit, and nothing that one of them
 * forbids. Read from fresh rows at each call. Policy (`agent_scope`) reads it again when it decides later.
 */
import {
  isLiveKey,
  lowerRole,
  memberColumn,
  memberOf,
  type PlatformRole,
  platformRoles,
  type Principal,
  type SubjectRow,
} from '#domains/identity'
import { decideAuthority, gapTexts, type ToolSets } from '#kernel/agents/authority'
import { isUuid } from '#kernel/ids'
import { quote, type Refusal, refuse } from '#kernel/refusal'
import { type Db, type Sql, statement } from '#store'
import type { Rows } from '#store/rows'
import type { Catalog, CompiledTask } from '../catalog/open-catalog.ts'
import type { StoredCommand } from '../command-table.ts'
import { type StandingRow, stopColumn } from '../labels.ts'
import { findTool, tasksNamed } from './find-tool.ts'

/** The tool by which every run asks for a higher budget; a person decides. A run can be forbidden to ask. */
export const RAISE_BUDGET = 'raise_budget'

/** The tool by which a run proposes a memory. Its effect submits the command that writes it. */
const PROPOSE_MEMORY = 'propose_memory'

type RunRow = Pick<
  Rows['concord.agent_runs'],
  'agent_run_id' | 'agent_name' | 'workspace_id' | 'swarm_run_id' | 'status'
> &
  Pick<StoredCommand, 'requested_by' | 'context' | 'task_name'> &
  StandingRow & {
    /** The requester of today; null: nobody who may enter the workspace. */
    readonly member: SubjectRow | null
    readonly own: ToolSets
    readonly connectors: readonly string[]
    /** The manifest of the run says so. */
    readonly may_write_memory: boolean
    /** The runs above it. */
    readonly ancestors: readonly ToolSets[]
    /** Of the living keys of the agent that asked for the run; null: a person did. */
    readonly key_tools: readonly string[] | null
    readonly is_at_work: boolean
    /** The tools for which the run or one above it has an approval gate. */
    readonly gates: readonly string[]
  }

/** What the run `r` may use, as JSON. */
const toolsOf = (r: string) =>
  `jsonb_build_object('tools', ${r}.allowed_tools, 'delegableTools', ${r}.delegable_tools, 'forbiddenTools', ${r}.forbidden_tools)`

/** A condition about the run `r`: it has neither ended nor is it being cancelled. */
const isRunAtWork = (r: string) =>
  `(${r}.completed_at is null and ${r}.cancelled_at is null and ${r}.status <> 'cancelling')`

/**
 * A condition about the row `row` of a new command: its run is at work, and waits with its end until the command is committed. The state is not in the `where`: a plan
 * from the time when there were few runs would find the run among all that have not ended.
 */
export const mayRunPropose = (row: string): string =>
  `(${row}.agent_run_id is null or (select ${isRunAtWork('r')} from concord.agent_runs as r
      where r.agent_run_id = ${row}.agent_run_id for share of r))`

/** $1 run. */
const findIdle = statement<Pick<RunRow, 'status'>>(
  'commands_find_idle_run',
  `select r.status from concord.agent_runs as r where r.agent_run_id = $1::uuid and not ${isRunAtWork('r')}`,
)

/** After the insert of a command was refused: whether this is the reason. */
export async function refuseIdleRun(sql: Sql, { agent_run_id }: StoredCommand): Promise<Refusal | undefined> {
  const [idle] = agent_run_id === null ? [] : await sql.run(findIdle, [agent_run_id])
  return idle && refuseRunEnded(idle)
}

export function refuseRunEnded({ status }: Pick<RunRow, 'status'>): Refusal {
  return refuse('agents.run.ended', `The run proposes nothing any more: it is ${status}.`)
}

/** The run $1 of the workspace $2 and every run above it. `limit 1`: a plan from the time when there were few runs would read all of them for each call. */
const CHAIN = `with recursive chain as (
  select r.*, 0 as distance from concord.agent_runs as r where r.agent_run_id = $1::uuid and r.workspace_id = $2::uuid
  union all
  select p.*, c.distance + 1 from chain as c
    cross join lateral (select a.* from concord.agent_runs as a where a.agent_run_id = c.parent_agent_run_id and a.workspace_id = c.workspace_id limit 1) as p
)`

/** Null for Concord itself. */
const requesterId = `case when starts_with(c.requested_by, 'user:') and pg_input_is_valid(substr(c.requested_by, 6), 'uuid')
  then substr(c.requested_by, 6)::uuid end`

/** $1 run, $2 workspace. */
const findRunRow = statement<RunRow>(
  'commands_find_run',
  `${CHAIN}
select r.agent_run_id, r.agent_name, r.workspace_id, r.swarm_run_id, r.status, c.requested_by, c.context, c.task_name, ${toolsOf('r')} as own, r.labels,
  ${stopColumn('r.workspace_id', `c.context->>'agent'`, 'r.agent_run_id')}, ${memberColumn(requesterId, 'r.workspace_id')} as member,
  r.allowed_connectors as connectors, coalesce(r.manifest #> '{skills,0,memory_scope,write}', '[]') <> '[]' as may_write_memory,
  ${isRunAtWork('r')} as is_at_work,
  (select coalesce(jsonb_agg(${toolsOf('a')}), '[]') from chain as a where a.distance > 0) as ancestors,
  (select coalesce(jsonb_agg(distinct g.gate), '[]') from chain as a, jsonb_array_elements_text(coalesce(a.manifest->'approval_gates', '[]')) as g (gate)) as gates,
  case when c.context->>'agent' is not null then array(select t from identity.api_keys as k, unnest(k.tools) as t
    where 'user:' || k.user_id = c.requested_by and k.agent = c.context->>'agent' and ${isLiveKey('k', 'c.workspace_id')}) end as key_tools
from chain as r join concord.commands as c on c.command_id = r.command_id and c.workspace_id = r.workspace_id
where r.distance = 0`,
)

/** A run, and its requester with the rights of now; undefined: nobody who may act. */
export type ActingRun = RunRow & { readonly principal: Principal | undefined }

/** Undefined: there is no such run in the workspace. */
export async function findActingRun(
  { db }: { readonly db: Db },
  workspaceId: string,
  agentRunId: string,
  keyRole: PlatformRole = 'admin',
): Promise<ActingRun | undefined> {
  const [run] = isUuid(agentRunId) ? await db.run(findRunRow, [agentRunId, workspaceId]) : []
  if (!run) return undefined
  const role = platformRoles.find((each) => each === run.context.metadata['role'])
  const member = run.member && role && memberOf(run.member, { workspaceId, roleMax: lowerRole(role, keyRole) })
  if (!member || member.role === 'reader') return { ...run, principal: undefined }
  const { agent } = run.context
  if (agent === undefined) return { ...run, principal: member }
  return { ...run, principal: { ...member, agent: { name: agent, tools: run.key_tools ?? [] } } }
}

/** What decides about the tools of a run. `principal` undefined: nobody who may act. The names of the agent and of its task: of a run that has begun. */
export type ToolScope = Pick<RunRow, 'own' | 'ancestors' | 'connectors' | 'may_write_memory' | 'key_tools'> &
  Partial<Pick<RunRow, 'agent_name' | 'task_name'>> & { readonly principal: object | undefined }

/** Why the run may not call the tool; empty: it may. Names of tools are those of their tasks. Pure. */
export function findScopeGaps(
  catalog: Pick<Catalog, 'tasks'>,
  run: ToolScope,
  { spec, type }: Pick<CompiledTask, 'spec' | 'type'>,
): readonly string[] {
  const { own, ancestors, connectors, may_write_memory, principal, key_tools } = run
  const tasksOf = (tools: ToolSets): ToolSets => ({
    tools: [...tools.tools, RAISE_BUDGET].flatMap((name) => taskNamed(catalog, name)),
    delegableTools: tools.delegableTools.flatMap((name) => taskNamed(catalog, name)),
    // A name that several tasks have forbids all of them.
    forbiddenTools: tools.forbiddenTools.flatMap((name) => tasksNamed(catalog, name).map((task) => task.spec.name)),
  })
  const gaps = decideAuthority(spec.name, {
    requester: principal ? (key_tools ?? 'all') : null,
    role: toolsOfRole(catalog, run) ?? 'all',
    ancestors: ancestors.map(tasksOf),
    manifest: tasksOf(own),
  })
  const closed = spec.connector_requirements.filter((name) => !connectors.includes(name))
  return [
    ...gaps.map((gap) => gapTexts[gap]),
    ...(startsRun(type) ? [DELEGATION] : []),
    ...(spec.memory_write_possible && !may_write_memory ? ['The run may not write memory.'] : []),
    ...closed.map((name) => `The run has no access to the connector ${quote(name)}.`),
  ]
}

/** A task that starts a run of its own: outside of the authority, the budget and the stop of the run that would call it. */
export function startsRun({ execution_mode: mode }: Pick<CompiledTask['type'], 'execution_mode'>): boolean {
  return mode === 'agentic' || mode === 'swarm'
}

export const DELEGATION = 'A run does not start other agents by their tasks. It delegates with spawn_subagent.'

function taskNamed(catalog: Pick<Catalog, 'tasks'>, name: string): readonly string[] {
  const tool = findTool(catalog, name)
  return tool.ok ? [tool.value.spec.name] : []
}

/**
 * The tools that the definition of the agent, or of the coordinator of a swarm, gives to its role today. It may have lost some since the run began; one that is gone
 * gives none. Undefined: the run has no definition of its own, because a run above it has started it.
 */
function toolsOfRole(
  catalog: Pick<Catalog, 'tasks'>,
  { agent_name, task_name }: Pick<ToolScope, 'agent_name' | 'task_name'>,
): readonly string[] | undefined {
  if (task_name === undefined || task_name === null) return undefined
  const metadata = catalog.tasks.get(task_name)?.spec.metadata
  const coordinator = metadata?.['swarm_coordinator'] as Coordinator | undefined
  if (metadata && !coordinator && task_name !== agent_name) return undefined
  const given =
    coordinator?.name === agent_name ? coordinator : (metadata?.['agent'] as Partial<Coordinator> | undefined)
  const tools = given?.callable_tools
  return Array.isArray(tools) ? [...tools.map(String), RAISE_BUDGET].flatMap((name) => taskNamed(catalog, name)) : []
}

type Coordinator = { readonly name: string; readonly callable_tools?: unknown }

/** What the rules `agent_scope` and `agent_gate` read. JSON: it is recorded with the decision. */
type AgentScope = {
  /** Why the run may not call the tool. */
  readonly gaps: readonly string[]
  /** The run or a run above it has an approval gate for the task. */
  readonly is_gated: boolean
}

export function scopeOf(
  catalog: Pick<Catalog, 'tasks'>,
  run: ActingRun,
  task: Pick<CompiledTask, 'spec' | 'type'>,
): AgentScope {
  const is_gated = run.gates.some((gate) => tasksNamed(catalog, gate).some(({ spec }) => spec.name === task.spec.name))
  return { gaps: findScopeGaps(catalog, run, task), is_gated }
}

/** The fact `agent_scope`: null for a command without a run, without a look at the database. */
export async function findAgentScope(
  deps: { readonly db: Db; readonly catalog: Pick<Catalog, 'tasks'> },
  { agent_run_id, workspace_id, task_name, context }: StoredCommand,
): Promise<AgentScope | null> {
  if (agent_run_id === null) return null
  // Every call of a run names its tool. A memory that it proposed needs what the proposal needed, and a gate has asked about that one.
  const isCall = context.metadata['tool_name'] !== undefined
  const [named = ''] = isCall ? [task_name ?? ''] : taskNamed(deps.catalog, PROPOSE_MEMORY)
  const task = deps.catalog.tasks.get(named)
  const run = task && (await findActingRun(deps, workspace_id, agent_run_id))
  if (!run) return { gaps: [gapTexts.manifest], is_gated: false }
  const scope = scopeOf(deps.catalog, run, task)
  return isCall ? scope : { ...scope, is_gated: false }
}
