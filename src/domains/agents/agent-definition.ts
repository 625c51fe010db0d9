/** An agentic task as one definition: the goal, the tools and the limits of an agent, and the command that starts a run of it. */
import type { z } from 'zod'
import {
  type CommandDefinition,
  defineCommandType,
  defineFunction,
  defineTask,
  fieldsAt,
  toolSlug,
} from '#domains/commands'
import { errorClasses } from '#kernel/error-classes'
import { formatPath, type JsonObject } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import type { RiskLevel } from '#kernel/policy/policy'
import { quote } from '#kernel/refusal'
import { agentForm, type AgentTerms } from './agent-form.ts'
import type { agentLimits } from './limits.ts'
import { agentRoles, hintOfRole, toolsOfRole } from './roles.ts'

export const AGENT_RUN = 'agent.run'

type Schema = z.ZodObject

/** What the command of a run returns. The answer itself is a message of the run, which can be erased. */
export type AgentResult = {
  readonly agent_run_id: string
  readonly end_reason: string
  readonly answer: { readonly agent_message_id: string; readonly digest: string } | null
  readonly artifact_ids: readonly string[]
}

export type AgentDefinition<Input extends Schema = Schema> = CommandDefinition<Input, AgentResult> & {
  readonly agent: AgentTerms
  readonly goalOf: (input: JsonObject) => string
}

/** The task that starts a run. */
type AgentTask<Input extends Schema> = {
  readonly input: Input
  readonly description?: string | undefined
  /** What the agent has to reach; a function of the input must be pure. */
  readonly goal: string | ((input: z.output<Input>) => string)
  /** Rules that decide about the start of a run, in addition to the rights of the requester. */
  readonly policy?: readonly string[]
  readonly risk?: RiskLevel
  /** Names the thing done: `'investigate:{month}'`. */
  readonly key?: string
  /** Default: the name in lower_snake_case. */
  readonly commandType?: string
}

type AgentSpec<Input extends Schema> = AgentTask<Input> & {
  /** One of the twelve roles, or a name of your own. */
  readonly role: string
  /** Default: the tools of the role. */
  readonly tools?: readonly string[]
  readonly forbiddenTools?: readonly string[]
  readonly connectors?: readonly string[]
  readonly memory?: Partial<AgentTerms['memory']>
  readonly approvalGates?: readonly string[]
  readonly limits?: Readonly<z.input<typeof agentLimits>>
  readonly termination?: AgentTerms['termination']
  /** The model and its settings, as its runtime reads them. */
  readonly model?: JsonObject
  /** The name of an agent runtime of the project and its settings. */
  readonly runtime: string | (JsonObject & { readonly name: string })
  readonly artifacts?: readonly string[]
  readonly version?: string
}

const MODES = ['user_request', 'agent_action', 'scheduled_trigger', 'webhook'] as const
const AUDIT = ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed']

const fields: Readonly<Record<keyof AgentSpec<Schema>, true>> = {
  input: true,
  description: true,
  goal: true,
  role: true,
  tools: true,
  forbiddenTools: true,
  connectors: true,
  memory: true,
  approvalGates: true,
  limits: true,
  termination: true,
  model: true,
  runtime: true,
  artifacts: true,
  version: true,
  policy: true,
  risk: true,
  key: true,
  commandType: true,
}

/** A field or a role that is mistyped would have no effect. A role of your own is a name that is not almost one of the twelve, and has its own tools. */
function checkNames(name: string, { role, tools, ...rest }: Pick<AgentSpec<Schema>, 'role' | 'tools'>): void {
  const known = Object.keys(fields)
  const unknown = Object.keys(rest).find((field) => !known.includes(field))
  if (unknown !== undefined) {
    const { hint = `The fields are ${known.join(', ')}.` } = didYouMean(unknown, known)
    throw new TypeError(`${name}: An agent has no field ${quote(unknown)}. ${hint}`)
  }
  const hint = hintOfRole(role)
  if (hint !== undefined || (tools === undefined && !Object.hasOwn(agentRoles, role)))
    throw new TypeError(
      `${name}: There is no role ${quote(role)}. ${hint ?? `The roles are ${Object.keys(agentRoles).join(', ')}. A role of your own needs \`tools\`.`}`,
    )
}

/** Throws where the definition itself is wrong; names of tools and runtimes are checked when the project opens. */
export function defineAgent<Input extends Schema>(name: string, spec: AgentSpec<Input>): AgentDefinition<Input> {
  checkNames(name, spec)
  const { runtime } = spec
  const read = agentForm.safeParse({
    name,
    version: spec.version,
    role: spec.role,
    tools: spec.tools ?? toolsOfRole(spec.role),
    forbidden_tools: spec.forbiddenTools,
    connectors: spec.connectors,
    memory: spec.memory,
    approval_gates: spec.approvalGates,
    limits: spec.limits,
    termination: spec.termination,
    model: spec.model,
    runtime: typeof runtime === 'string' ? { name: runtime } : runtime,
    artifacts: spec.artifacts,
  })
  if (read.success) return agentOf(read.data, spec)
  const [issue] = read.error.issues
  const path = (issue?.path ?? []).map(String)
  if (issue?.code !== 'unrecognized_keys') throw new TypeError(`${name}: ${formatPath(path)}: ${issue?.message ?? ''}`)
  const [key = ''] = issue.keys
  const { hint = '' } = didYouMean(key, fieldsAt(agentForm, path))
  throw new TypeError(`${name}: ${formatPath(path)} has no field ${quote(key)}. ${hint}`)
}

export function agentOf<Input extends Schema>(
  { tools, ...given }: AgentTerms,
  { input, description = given.name, goal, policy = [], risk = 'low', key, ...spec }: AgentTask<Input>,
): AgentDefinition<Input> {
  const { name } = given
  const terms: AgentTerms = { ...given, tools: tools.filter((tool) => !given.forbidden_tools.includes(tool)) }
  const commandType = spec.commandType ?? toolSlug(name)
  const type = defineCommandType({
    name: commandType,
    description,
    payload: input.strict(),
    side_effects: [AGENT_RUN],
    error_classes: errorClasses,
    cancellable_by: ['requester', 'admin'],
    audit: AUDIT,
    risk_level: risk,
    execution_mode: 'agentic',
    idempotency: key === undefined ? { required: false } : { required: true, key_template: key },
  })
  const task = defineTask({
    name,
    description,
    command_type: commandType,
    function_name: commandType,
    ingress_types: MODES,
    async_required: true,
    artifact_output_possible: terms.artifacts.length > 0,
    policy_checks: [...new Set(['permission', 'data_safety', ...policy])],
    risk_level: risk,
    metadata: { agent: answersOf(terms, typeof goal === 'string' ? goal : description) },
  })
  const fn = defineFunction({
    name: commandType,
    plan: (asked) => [{ effect_type: AGENT_RUN, payload: { agent: name, input: asked } }],
  })
  return Object.freeze({
    kind: 'command',
    name,
    taskName: name,
    input,
    definitions: [fn, type, task],
    connectors: [],
    agent: terms,
    // The stored payload has passed the schema.
    goalOf: (asked: JsonObject) => (typeof goal === 'string' ? goal : goal(asked as z.output<Input>)),
  })
}

/** The ten questions that the catalog asks of every agentic task. */
function answersOf(terms: AgentTerms, goal: string): JsonObject {
  const { tools, memory, approval_gates, artifacts, termination } = terms
  return {
    goal,
    callable_tools: [...tools],
    readable_memories: [...memory.read_scopes],
    writable_memories: memory.write_allowed ? [...memory.memory_types] : [],
    policy_checked_tools: [...tools],
    approval_actions: [...approval_gates],
    may_create_commands: tools.length > 0,
    may_create_artifacts: artifacts.length > 0 || tools.some((tool) => tool.startsWith('create_')),
    audit_per_loop: ['tool_call', 'final_answer'],
    termination: [...termination.conditions],
  }
}
