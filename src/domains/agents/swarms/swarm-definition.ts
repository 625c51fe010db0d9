/**
 * A swarm as one definition: its coordinator, its agents, how they work together and how their results become one. From code (`defineSwarm`) or from a
 * YAML file; both give the same object.
 */
import { z } from 'zod'
import { type CommandDefinition, defineCommandType, defineFunction, defineTask, readYamlForm } from '#domains/commands'
import { memoryTypes } from '#domains/memory'
import { joinsOfMode, swarmModes } from '#kernel/agents/swarm-mode'
import { errorClasses } from '#kernel/error-classes'
import { decodeId } from '#kernel/ids'
import { formatPath, type JsonObject } from '#kernel/json-value'
import { joinStrategies } from '#kernel/machines/agent'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { agentForm, type AgentTerms, jsonField as json, runtimeField } from '../agent-form.ts'
import type { StoredAgentRun } from '../agent-run.ts'
import { asLimit, costLimit, countLimit, deadlineLimit, STEPS_MAX } from '../limits.ts'
import type { SwarmPlanner } from './swarm-planner.ts'

export const SWARM_RUN = 'swarm.run'
const SPAWN_TOOL = 'spawn_subagent'

const name = z.string().min(1).max(200)
const names = z.array(name).default([])

/** What a spawn asks for. */
const spawnFields = {
  agent_name: name,
  agent_role: name,
  max_steps: countLimit(STEPS_MAX).default(10),
  allowed_tools: z.array(name).max(200),
  allowed_connectors: z.array(name).max(200).default([]),
  memory_scope: json.default({}),
}
/** The limits of a coordinator are those of its swarm. */
const delegation = {
  delegated_goal: z.string().min(1).max(4_000),
  constraints: json.default({}),
  /** Carved out of what its parent has left. Null: it shares that. */
  max_cost_units: costLimit.nullable().default(null),
  deadline_minutes: deadlineLimit,
}

/** What a swarm declares of an agent. */
const agentFields = {
  ...spawnFields,
  /** Roles that its children may have; empty: all. */
  allowed_child_roles: names,
  /** Tools whose calls by it or by an agent below it need an approval. */
  approval_gates: names,
  /** The runtime and the model, if they differ from those of the swarm. */
  runtime: runtimeField.nullable().default(null),
  model: json.nullable().default(null),
}

const swarmForm = z.strictObject({
  name: z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'a name such as revenue_report'),
  objective: z.string().min(1).max(4_000),
  execution_mode: z.enum(swarmModes),
  join_strategy: z.enum(joinStrategies),
  limits: z
    .strictObject({
      max_agents: countLimit(100).default(5),
      max_depth: countLimit(10).default(2),
      max_total_steps: countLimit(1_000_000).default(100),
      max_cost_units: costLimit.nullable().default(null),
      /** How many agents work at the same time. */
      max_parallel: countLimit(100).nullable().default(null),
      deadline_minutes: deadlineLimit,
    })
    .prefault({}),
  /** Settings of the join. */
  join: z
    .strictObject({
      needed: countLimit(100).nullable().default(null),
      threshold: z.number().min(0).max(1).default(0.5),
      candidates: countLimit(100).nullable().default(null),
      share: z.number().gt(0).max(1).default(1),
      reduce: z.enum(['list', 'coordinator']).default('list'),
    })
    .prefault({}),
  /** `coordinator`: the coordinator starts its agents itself, as it needs them. */
  planner: z.enum(['template', 'coordinator']).default('template'),
  coordinator: z.strictObject({ ...agentFields, max_steps: countLimit(STEPS_MAX).default(20) }),
  agents: z
    .array(
      z.strictObject({
        ...agentFields,
        ...delegation,
        /** False: the swarm can succeed without it. */
        required: z.boolean().default(true),
        /** `map_reduce`: its part of the work. Default: its name. */
        part: name.nullable().default(null),
      }),
    )
    .max(100)
    .default([]),
  /** The names of the fields of its command. */
  inputs: names,
  runtime: runtimeField.default({ name: 'scripted' }),
  model: json.default({}),
})
export type SwarmTerms = z.output<typeof swarmForm>
type SwarmInput = z.input<typeof swarmForm>

const idOf = (kind: 'agent_run' | 'swarm_run') =>
  z.string().refine((text) => decodeId(kind, text).ok, `the id of a ${kind}`)

/** `parent_agent_run_id` and `swarm_run_id` are those of the run that asks; they may be left out. */
export const spawnRequest = z.strictObject({
  parent_agent_run_id: idOf('agent_run').optional(),
  swarm_run_id: idOf('swarm_run').optional(),
  ...spawnFields,
  ...delegation,
  context_scope: json.default({}),
})

/** Reads a swarm from data, such as a YAML file. Refuses the first value that does not fit, with its path. */
export function readSwarm(given: unknown): Decision<SwarmTerms> {
  const parsed = swarmForm.safeParse(given)
  if (parsed.success) return checkSwarm(parsed.data)
  const [issue] = parsed.error.issues
  const path = formatPath((issue?.path ?? []).map((part) => (typeof part === 'number' ? part : String(part))))
  const where = path === '' ? {} : { path }
  return asLimit(refuse('agents.swarm.invalid', `The swarm is not valid: ${issue?.message ?? 'it is empty'}.`, where))
}

const invalid = (reason: string, path: string) => refuse('agents.swarm.invalid', reason, { path })

function checkSwarm(terms: SwarmTerms): Decision<SwarmTerms> {
  const { execution_mode: mode, join_strategy: join, coordinator, agents, limits, planner } = terms
  const fitting = joinsOfMode[mode]
  if (!fitting.includes(join)) return invalid(`The mode ${mode} can join by ${fitting.join(', ')}.`, 'join_strategy')
  if (new Set(agents.map(({ agent_name }) => agent_name)).size < agents.length)
    return invalid('Two agents have the same name.', 'agents')
  const workers = agents.filter((agent) => !isJudge(terms, agent))
  if (planner === 'template' && workers.length === 0) return invalid('It has no agents.', 'agents')
  if (lacksJudges(terms, agents)) return invalid(`It has ${NO_JUDGE}`, 'agents')
  const missing = toolsOfJoin(terms).find((tool) => !coordinator.allowed_tools.includes(tool))
  if (missing !== undefined) return invalid(`The coordinator needs the tool ${missing}.`, 'coordinator.allowed_tools')
  if (agents.length + 1 > limits.max_agents)
    return refuse('limit_value', `It has ${agents.length + 1} agents with its coordinator.`, {
      path: 'limits.max_agents',
    })
  return accept(terms)
}

const judgingRoles = ['reviewer', 'evaluator', 'safety', 'domain_expert']
export const NO_JUDGE = `no agent with the role ${judgingRoles.join(', ')}.`
const judgedJoins = ['evaluator_selection', 'best_of_n', 'ranked_review']

type JudgedBy = Pick<SwarmTerms, 'execution_mode' | 'join_strategy'>

function needsJudges({ execution_mode, join_strategy }: JudgedBy): boolean {
  return execution_mode === 'review_driven' || judgedJoins.includes(join_strategy)
}

/** Its results could never be judged. */
export function lacksJudges(terms: JudgedBy, agents: readonly { readonly agent_role: string }[]): boolean {
  return needsJudges(terms) && !agents.some((agent) => isJudge(terms, agent))
}

/** A judge evaluates the results of the others, and starts when they have ended. */
export function isJudge(terms: JudgedBy, { agent_role }: { readonly agent_role: string }): boolean {
  return needsJudges(terms) && judgingRoles.includes(agent_role)
}

function toolsOfJoin({ join_strategy, join }: SwarmTerms): readonly string[] {
  if (join_strategy === 'human_review') return [SPAWN_TOOL, 'request_approval']
  if (join_strategy === 'map_reduce' && join.reduce === 'list') return [SPAWN_TOOL, 'create_artifact']
  return [SPAWN_TOOL]
}

/** Tools that the coordinator may pass on because the template declares a child with them, and only therefore. */
export function delegableTools({ coordinator, agents }: Pick<SwarmTerms, 'coordinator' | 'agents'>): readonly string[] {
  const tools = new Set(agents.flatMap(({ allowed_tools }) => allowed_tools))
  return [...tools].filter((tool) => !coordinator.allowed_tools.includes(tool)).sort()
}

type SwarmAgent = Pick<
  SwarmTerms['coordinator'],
  'agent_name' | 'agent_role' | 'allowed_tools' | 'allowed_connectors' | 'memory_scope' | 'max_steps'
> &
  Partial<Pick<SwarmTerms['agents'][number], 'max_cost_units' | 'deadline_minutes'>>

/** Its contract is the one that the swarm declares for its name and role. One that is not declared has the runtime of the swarm, and the child roles of its parent. */
export function agentTerms(swarm: SwarmTerms, agent: SwarmAgent, parent?: StoredAgentRun): AgentTerms {
  const declared = [swarm.coordinator, ...swarm.agents].find(
    ({ agent_name, agent_role }) => agent_name === agent.agent_name && agent_role === agent.agent_role,
  )
  const { allowed_memory_types: types } = agent.memory_scope
  return agentForm.parse({
    name: agent.agent_name,
    role: agent.agent_role,
    tools: agent.allowed_tools,
    forbidden_tools: parent?.forbidden_tools,
    connectors: agent.allowed_connectors,
    memory: {
      write_allowed: agent.allowed_tools.includes('propose_memory'),
      memory_types: memoryTypes.filter((type) => Array.isArray(types) && types.includes(type)),
    },
    approval_gates: gatesOf(swarm, declared),
    limits: {
      max_steps: agent.max_steps,
      max_cost_units: agent.max_cost_units,
      deadline_minutes: agent.deadline_minutes,
    },
    model: declared?.model ?? swarm.model,
    runtime: {
      ...(declared?.runtime ?? swarm.runtime),
      allowed_child_roles: declared?.allowed_child_roles ?? (parent ? childRolesOf(parent) : []),
    },
  })
}

/**
 * A gate of one agent holds for every other one, except for one that is declared with the same tool: another name must not be a way around it. Those of the
 * coordinator, which hold for all below it, are its own alone.
 */
function gatesOf({ coordinator, agents }: SwarmTerms, declared?: SwarmTerms['coordinator']): readonly string[] {
  if (declared === coordinator) return coordinator.approval_gates
  const gates = new Set([coordinator, ...agents].flatMap(({ approval_gates }) => approval_gates))
  const isOwn = (gate: string) => declared?.allowed_tools.includes(gate) && !declared.approval_gates.includes(gate)
  return [...gates].filter((gate) => !isOwn(gate))
}

/** The coordinator and the agents as they will be started. */
export function agentsOfSwarm(swarm: SwarmTerms): readonly AgentTerms[] {
  return [swarm.coordinator, ...swarm.agents].map((agent) => agentTerms(swarm, agent))
}

/** Copied into the run when it starts; empty: all. */
export function childRolesOf({ runtime_config }: StoredAgentRun): string[] {
  const { allowed_child_roles: roles } = runtime_config
  return Array.isArray(roles) ? roles.map(String) : []
}

export type SwarmDefinition = CommandDefinition<z.ZodObject, JsonObject> & {
  readonly swarm: SwarmTerms
  /** Omitted: the template plans. */
  readonly planner?: SwarmPlanner | undefined
}

type SwarmSpec = Omit<SwarmInput, 'name'> & {
  readonly createPlan?: SwarmPlanner
  /** In addition to the rights of the requester. */
  readonly policy?: readonly string[]
}

const AUDIT = ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed']

/** Throws where the definition itself is wrong; names of tools and runtimes are checked when the project opens. */
export function defineSwarm(swarmName: string, { createPlan, policy, ...spec }: SwarmSpec): SwarmDefinition {
  const read = readSwarm({ ...spec, name: swarmName })
  if (!read.ok) throw new TypeError(`${swarmName}: ${[read.path, read.reason].filter(Boolean).join(': ')}`)
  return swarmOf(read.value, createPlan, policy)
}

/** Undefined: the file defines no swarm. */
export function loadSwarm(file: string, bytes: Uint8Array): Decision<SwarmDefinition | undefined> {
  const yaml = readYamlForm(file, bytes, 'join_strategy', swarmForm)
  if (!yaml.ok) return asLimit(yaml)
  if (!yaml.value) return accept(undefined)
  const read = checkSwarm(yaml.value)
  return read.ok ? accept(swarmOf(read.value)) : { ...read, reason: `${file}: ${read.reason}` }
}

export function swarmOf(terms: SwarmTerms, planner?: SwarmPlanner, policy: readonly string[] = []): SwarmDefinition {
  const { name: swarmName, objective } = terms
  const input = z.strictObject(Object.fromEntries(terms.inputs.map((field) => [field, z.json()])))
  const named = { name: swarmName, description: objective }
  const type = defineCommandType({
    ...named,
    payload: input,
    side_effects: [SWARM_RUN],
    error_classes: errorClasses,
    cancellable_by: ['requester', 'admin'],
    audit: AUDIT,
    execution_mode: 'swarm',
  })
  const task = defineTask({
    ...named,
    command_type: swarmName,
    function_name: swarmName,
    ingress_types: ['user_request', 'scheduled_trigger', 'webhook'],
    required_inputs: terms.inputs,
    async_required: true,
    artifact_output_possible: true,
    policy_checks: ['permission', 'data_safety', ...policy],
    metadata: {
      swarm: answersOf(terms),
      swarm_coordinator: { name: terms.coordinator.agent_name, callable_tools: [...terms.coordinator.allowed_tools] },
      swarm_agents: [terms.coordinator, ...terms.agents].map(({ agent_name }) => agent_name),
    },
  })
  const fn = defineFunction({
    name: swarmName,
    plan: (given) => [{ effect_type: SWARM_RUN, payload: { swarm: swarmName, input: given } }],
  })
  return Object.freeze({
    kind: 'command',
    name: swarmName,
    taskName: swarmName,
    input,
    definitions: [fn, type, task],
    connectors: [],
    swarm: terms,
    ...(planner && { planner }),
  })
}

/** The eighteen questions that the catalog asks of every swarm. */
function answersOf(terms: SwarmTerms): JsonObject {
  const { coordinator, agents, limits, execution_mode } = terms
  const all = [coordinator, ...agents]
  const perRole = (listOf: (agent: (typeof all)[number]) => readonly string[]) =>
    Object.fromEntries(
      all.map(({ agent_role }) => [
        agent_role,
        all.filter((agent) => agent.agent_role === agent_role).flatMap((agent) => [...listOf(agent)]),
      ]),
    )
  const has = (tool: string) => (agent: (typeof all)[number]) => agent.allowed_tools.includes(tool)
  return {
    parent_command: terms.name,
    agent_or_function: 'agent',
    single_or_swarm: 'swarm',
    objective: terms.objective,
    coordinator: coordinator.agent_name,
    allowed_roles: [...new Set(all.map(({ agent_role }) => agent_role))],
    may_children_spawn: execution_mode === 'hierarchical',
    max_depth: limits.max_depth,
    tools_per_agent: perRole(({ allowed_tools }) => allowed_tools),
    connectors_per_agent: perRole(({ allowed_connectors }) => allowed_connectors),
    memory_per_agent: perRole(({ memory_scope }) => Object.keys(memory_scope)),
    memory_writers: all.filter(has('propose_memory')).map(({ agent_name }) => agent_name),
    artifacts_per_agent: perRole((agent) => (has('create_artifact')(agent) ? ['any'] : [])),
    join: terms.join_strategy,
    approval_steps: [
      ...(terms.join_strategy === 'human_review' ? ['join'] : []),
      ...new Set(all.flatMap(({ approval_gates }) => approval_gates)),
    ],
    cancellation_rules: 'The agents are cancelled first, in the mode of the command.',
    compensation_rules: 'The commands of each agent are undone in reverse order, children first.',
    mandatory_audit: AUDIT,
  }
}
