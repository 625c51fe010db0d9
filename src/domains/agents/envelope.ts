/**
 * The shipped task Run Under Envelope: an agentic task together with the calls that its agent may make without asking again. Its approval is an ordinary one. It
 * shows the calls with their bounds, and is asked of everybody who would be asked about one of them. Then it starts the task, and waits for its end.
 */
import { z } from 'zod'
import { textField } from '#contract'
import {
  agentHash,
  COMMAND_KIND,
  defineCommandType,
  defineEffect,
  defineFunction,
  type Definition,
  definePolicy,
  defineTask,
  type EffectCall,
  EffectFailure,
  EffectPending,
  ENVELOPE_START,
  envelopeKey,
  type EnvelopeTerms,
  type FactSources,
  findPresentRights,
  findTask,
  findTool,
  previewTool,
  readCommand,
  RUN_UNDER_ENVELOPE,
  type StoredCommand,
  type SubmitCommand,
  submitCommand,
  toolSlug,
  validatePayload,
} from '#domains/commands'
import type { Actor } from '#kernel/actor'
import { errorClasses } from '#kernel/error-classes'
import { decodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { EnvelopeCalls } from '#kernel/policy/envelope'
import { higherRisk, type PolicyAnswer, type PolicyInput, type RequiredApproval } from '#kernel/policy/policy'
import { quote } from '#kernel/refusal'
import type { AgentDefinition } from './agent-definition.ts'
import { definedColumns } from './agent-run.ts'
import { defineRun } from './define-run.ts'
import type { AgentDeps } from './deps.ts'

type JsonSchema = NonNullable<z.core.JSONSchema.BaseSchema['properties']>[string]

const TASK = 'Run Under Envelope'
const name = textField(200, { charsMin: 1 })
const object = z.record(z.string(), z.json()) as unknown as z.ZodType<JsonObject, JsonObject>

const bound = z.union([
  z.literal('any'),
  z.strictObject({
    one_of: z
      .array(z.union([textField(1_000), z.number(), z.boolean()]))
      .min(1)
      .max(100),
  }),
  z.strictObject({ min: z.number().optional(), max: z.number() }),
])

const envelopeCalls = z.strictObject({
  tool: name.meta({ example: 'pay_supplier' }),
  calls_max: z.int().min(1).max(10_000).meta({ example: 3, description: 'How many calls are covered.' }),
  arguments: z
    .record(z.string(), bound)
    .default({})
    .meta({
      example: { amount: { max: 100 }, supplier: { one_of: ['acme'] }, note: 'any' },
      description:
        'The bound of each argument. An argument without one is not covered, nor a call without a bounded one.',
    }),
  untrusted: z.boolean().default(false).meta({ description: 'Also when untrusted content has reached the agent.' }),
})

export const envelopeFields = {
  calls: z.array(envelopeCalls).min(1).max(50),
  expires_in_minutes: z.int().min(1).max(43_200).default(1_440).meta({ description: 'From the request.' }),
}

const payload = z.strictObject({ task_name: name, input: object.default({}), ...envelopeFields })

/** What the policy and the plan of an envelope are made of. JSON: it is recorded with the decision. */
type EnvelopeFact = {
  readonly problems: readonly string[]
  readonly approvals: readonly RequiredApproval[]
  readonly terms: EnvelopeTerms | null
}

/** Tools whose purpose is a question to a person, or another run. */
const NEVER = ['request_approval', 'request_human_input', 'raise_budget', 'spawn_subagent']

export function envelopeFacts(deps: () => AgentDeps): FactSources {
  return { envelope: (_, command) => readEnvelope(deps(), command) }
}

async function readEnvelope(deps: AgentDeps, command: StoredCommand): Promise<EnvelopeFact> {
  const none = (problem: string): EnvelopeFact => ({ problems: [problem], approvals: [], terms: null })
  const asked = payload.safeParse(command.payload)
  if (!asked.success) return none('The request is not complete.')
  const { task_name, input, calls, expires_in_minutes } = asked.data
  const agent = deps.agents.get(task_name)
  const task = findTask(deps.commands.catalog, task_name)
  if (!agent || !task) return none(`${quote(task_name)} is not an agent of the project.`)
  const given = validatePayload(task.type, task.spec, input)
  if (given.t !== 'fits') {
    const why = given.t === 'missing' ? `${given.fields.join(', ')} is missing` : given.errors.join('; ')
    return none(`The input does not fit ${quote(task_name)}: ${why}.`)
  }
  const defined = defineRun(deps, agent, given.payload)
  if (!defined.ok) return none(defined.reason)
  const problems: string[] = []
  const stated: EnvelopeCalls[] = []
  const approvals: RequiredApproval[] = []
  for (const { tool, ...bounds } of calls) {
    const found = await readCalls(deps, command, agent, tool, bounds.arguments)
    if (typeof found === 'string') problems.push(found)
    else if (stated.some(({ task_name: other }) => other === found.calls.task_name))
      problems.push(`${quote(tool)} is named twice.`)
    else {
      stated.push({ ...found.calls, ...bounds })
      approvals.push(...found.approvals)
    }
  }
  const agent_hash = agentHash(definedColumns(defined.value))
  return { problems, approvals, terms: { task_name, agent_hash, expires_in_minutes, calls: stated } }
}

type FoundCalls = {
  readonly calls: Omit<EnvelopeCalls, 'calls_max' | 'arguments' | 'untrusted'>
  readonly approvals: readonly RequiredApproval[]
}

/** A text: why the envelope cannot cover the tool. */
async function readCalls(
  deps: AgentDeps,
  { workspace_id: workspaceId, requested_by, context }: StoredCommand,
  agent: AgentDefinition,
  toolName: string,
  bounds: EnvelopeCalls['arguments'],
): Promise<FoundCalls | string> {
  const tool = findTool(deps.commands.catalog, toolName)
  if (!tool.ok) return tool.reason
  const { spec, type, forAgents } = tool.value
  const own = agent.agent.tools.some((named) => {
    const known = findTool(deps.commands.catalog, named)
    return known.ok && known.value.spec.name === spec.name
  })
  if (!own) return `The agent has no tool ${quote(toolName)}.`
  if (NEVER.includes(toolSlug(spec.name))) return `An envelope cannot cover ${quote(toolName)}: it asks a person.`
  const text = findRangedText(type.payload, bounds)
  if (text !== undefined)
    return `The argument ${text} of ${quote(toolName)} is no number, so no range covers it. Bound it with one_of.`
  const principal = await findPresentRights(deps.commands, { workspace_id: workspaceId, requested_by, context })
  const by: Actor = { id: requested_by, kind: 'user', traceId: context.trace_id, ...(principal ? { principal } : {}) }
  const asked = { workspaceId, requestId: context.request_id, toolName, agent: agent.agent }
  const preview = await previewTool(deps.commands, by, asked)
  if (!preview.ok) return preview.reason
  return {
    calls: {
      task_name: spec.name,
      effects: type.side_effects,
      risk_level: higherRisk(spec.risk_level, type.risk_level),
      policy_version: forAgents.policy.version,
      command_version: type.version,
    },
    approvals: preview.value.approvals.map(({ approver, approvals_required: count }) => ({
      role: refOf(approver),
      count,
    })),
  }
}

/** An argument that has a range although its contract takes no number, such as an amount that is a text: no call would be covered. */
function findRangedText(contract: z.ZodType, bounds: EnvelopeCalls['arguments']): string | undefined {
  const { properties = {} } = z.toJSONSchema(contract, { io: 'input', unrepresentable: 'any' })
  return Object.keys(properties).find((name) => {
    const own = bounds[name]
    return typeof own === 'object' && 'max' in own && !takesNumbers(properties[name])
  })
}

function takesNumbers(schema: JsonSchema | undefined): boolean {
  if (typeof schema !== 'object') return true
  const { type, anyOf } = schema
  return anyOf ? anyOf.some(takesNumbers) : type === undefined || type === 'number' || type === 'integer'
}

/** A preview shows a person by the public id. */
function refOf(approver: string): string {
  const id = decodeId('user', approver)
  return id.ok ? `user:${id.value}` : approver
}

const factOf = (facts: unknown) => (facts as { readonly envelope?: EnvelopeFact } | undefined)?.envelope

const rule = {
  name: 'envelope',
  category: 'approval_requirement' as const,
  actions: '*' as const,
  decide({ context }: PolicyInput): PolicyAnswer {
    const fact = factOf(context['facts'])
    if (!fact || fact.problems.length > 0)
      return { decision: 'deny', reasons: [...(fact?.problems ?? ['The calls of the envelope are not known.'])] }
    const calls = fact.terms?.calls.map(({ task_name, calls_max }) => `${task_name} up to ${calls_max} times`)
    const reason = `The agent then makes these calls without asking again: ${calls?.join(', ') ?? ''}.`
    return { decision: 'require_approval', reasons: [reason], required_approvals: [...fact.approvals] }
  },
}

/** `deps` is called by the first envelope, because the catalog opens before the room. */
export function envelopeDefinitions(deps: () => AgentDeps): readonly Definition[] {
  const description = 'Runs an agentic task, and lets its agent make the stated calls without asking again.'
  return [
    definePolicy(rule, { facts: ['envelope'] }),
    defineEffect({
      effect_type: ENVELOPE_START,
      // The key of the command that it starts makes a repeat the same command.
      class: 'keyed',
      outward: false,
      do: (call) => start(deps(), call),
    }),
    defineCommandType({
      name: RUN_UNDER_ENVELOPE,
      description,
      payload,
      side_effects: [ENVELOPE_START],
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
    }),
    defineTask({
      name: TASK,
      description,
      command_type: RUN_UNDER_ENVELOPE,
      function_name: RUN_UNDER_ENVELOPE,
      ingress_types: ['user_request'],
      async_required: true,
      policy_checks: ['permission', 'data_safety', rule.name],
    }),
    defineFunction({
      name: RUN_UNDER_ENVELOPE,
      reads_facts: true,
      // The terms were parsed from JSON.
      plan: (_, { facts }) => [{ effect_type: ENVELOPE_START, payload: { ...factOf(facts)?.terms } as JsonObject }],
    }),
  ]
}

type RunUnderEnvelope = Pick<SubmitCommand, 'workspaceId' | 'requestId' | 'taskName' | 'payload'> & {
  readonly envelope: JsonObject
}

/** Asks for the approval of the envelope. The task starts when it is given. */
export function requestEnvelope(
  { commands }: AgentDeps,
  by: Actor,
  { workspaceId, requestId, taskName, payload: input, envelope }: RunUnderEnvelope,
) {
  const asked = { task_name: taskName, input, ...envelope }
  return submitCommand(commands, by, {
    workspaceId,
    requestId,
    taskName: TASK,
    payload: asked,
    ingress: 'user_request',
  })
}

/** The task is submitted as its requester, with the rights of today. */
async function start({ commands }: AgentDeps, call: EffectCall): Promise<never> {
  const { workspaceId, commandId, requestedBy: id, traceId } = call
  const found = await readCommand(commands.db, workspaceId, commandId)
  if (!found.ok) throw new EffectFailure('internal_error', found.reason, 'no')
  const { context } = found.value.command
  // The payload has passed the schema, and was approved with the terms.
  const { task_name: taskName, input } = found.value.command.payload as z.output<typeof payload>
  const principal = await findPresentRights(commands, found.value.command)
  if (!principal) throw new EffectFailure('permission_denied', 'The requester may not act here any more.', 'no')
  const submitted = await submitCommand(
    commands,
    { id, kind: 'user', traceId, principal },
    {
      workspaceId,
      taskName,
      payload: input,
      idempotencyKey: envelopeKey(commandId),
      ingress: 'user_request',
      requestId: context.request_id,
      metadata: { envelope_id: commandId },
      follower: { kind: COMMAND_KIND, id: commandId },
    },
  )
  if (!submitted.ok) throw new EffectFailure('validation_error', submitted.reason, 'no')
  throw new EffectPending(submitted.value.command.command_id)
}
