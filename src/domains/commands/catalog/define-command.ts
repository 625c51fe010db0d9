/** A command as one typed definition. It derives the command type, the task, the function, the policy and the facts of the layer below. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { ConnectorDefinition } from '#domains/connectors'
import { errorClasses } from '#kernel/error-classes'
import { exampleVariants } from '#kernel/example-payload'
import { parseKeyTemplate, renderKey } from '#kernel/idempotency-key'
import type { JsonObject } from '#kernel/json-value'
import { higherRisk, type PolicyAnswer, type RiskLevel } from '#kernel/policy/policy'
import { listSteps, type Operation, type CommandStep } from '#kernel/step'
import {
  type CommandType,
  defineCommandType,
  type Definition,
  defineFact,
  defineFunction,
  definePolicy,
  defineTask,
  type FactInput,
  type TaskSpec,
} from './definitions.ts'
import type { EffectDefinition } from './effect-definition.ts'
import { factsOf } from './shipped-policies.ts'

type FactLoaders<Input, Values> = {
  readonly [Name in keyof Values]: (of: FactInput<Input>) => Promise<Values[Name]>
}

type PolicyContext<Values> = {
  readonly facts: Readonly<Values>
  /** The platform role and the org roles of the requester. */
  readonly requester: { readonly role: string; readonly orgRoles: readonly string[]; readonly isAgent: boolean }
}

type LastOf<Steps extends readonly CommandStep[]> = Steps extends readonly [...CommandStep[], CommandStep<infer Result>]
  ? Result
  : Steps extends readonly CommandStep<infer Result>[]
    ? Result
    : unknown

type ResultsOf<Steps extends readonly CommandStep[]> = {
  [K in keyof Steps]: Steps[K] extends CommandStep<infer Result> ? Result : never
}

type Schema = z.ZodObject

type CommandSpec<Input extends Schema, Values, Steps extends readonly CommandStep[], Result> = {
  /** Unknown fields are refused. */
  readonly input: Input
  readonly description?: string
  /** Names the thing done, such as the refund of one order: `({ order_id }) => \`refund:${order_id}\``, or `'refund:{order_id}'`. */
  readonly key?: string | ((input: z.output<Input>) => string)
  /** Values that the policy needs, loaded before it decides and recorded with the decision. */
  readonly facts?: FactLoaders<z.output<Input>, Values>
  /** Decides about a request, or the names of rules that decide. A pure function: the same input and facts give the same answer. */
  readonly policy: ((input: z.output<Input>, context: PolicyContext<Values>) => PolicyAnswer) | readonly string[]
  /** Lists the effects in their order. A pure function: the same input gives the same list. */
  readonly steps: (input: z.output<Input>) => Steps
  /** Operations that no example of the input reaches. */
  readonly uses?: readonly Operation[]
  /** The result of the command. Default: the result of the last step. */
  readonly result?: (...results: ResultsOf<Steps>) => Result
  readonly onFailure?: CommandType['on_failure']
  /** Default: the highest risk of the steps. */
  readonly risk?: RiskLevel
  readonly approval?: Partial<CommandType['approval']>
  /** Overrides of the derived command type. */
  readonly type?: Partial<Omit<CommandType, 'kind' | 'name' | 'payload' | 'approval'>>
  /** Overrides of the derived task. */
  readonly task?: Partial<Omit<TaskSpec, 'command_type' | 'function_name'>>
}

export type CommandDefinition<Input extends Schema = Schema, Result = unknown> = {
  readonly kind: 'command'
  readonly name: string
  /** The name to submit it by. */
  readonly taskName: string
  readonly input: Input
  readonly definitions: readonly Definition[]
  /** The connectors of its steps. */
  readonly connectors: readonly ConnectorDefinition[]
  /** Only a type. */
  readonly resultType?: Result
}

const AUDIT = ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed']

export function defineCommand<
  Input extends Schema,
  const Steps extends readonly CommandStep[],
  Values = unknown,
  Result = LastOf<Steps>,
>(name: string, spec: CommandSpec<Input, Values, Steps, Result>): CommandDefinition<Input, Result> {
  const { input, description = name, steps, result } = spec
  const sources = findSources(spec)
  const effects = sources.filter((source): source is EffectDefinition => source.kind === 'effect')
  const connectors = sources.filter((source): source is ConnectorDefinition => source.kind === 'connector')
  const side_effects = typesOf(spec)
  const canUndo = effects.some(({ undo }) => undo) || hasUndo(connectors, side_effects)
  const risk_level = spec.risk ?? riskOf(effects, connectors, side_effects)
  const key_template = spec.key === undefined ? undefined : templateOf(name, spec.key, input)
  const { policies, definitions } = policyOf(name, spec)
  const isBounded = connectors.length === 0 && effects.length === 1 && effects.every(({ bounded }) => bounded)
  const type = defineCommandType({
    name,
    description,
    payload: strict(input),
    side_effects,
    error_classes: errorClasses,
    cancellable_by: ['requester', 'admin'],
    audit: AUDIT,
    risk_level,
    compensation: { supported: canUndo },
    cancellation_mode: canUndo ? 'compensate_then_stop' : 'graceful',
    on_failure: spec.onFailure ?? 'keep',
    idempotency: key_template === undefined ? { required: false } : { required: true, key_template },
    ...(spec.approval && { approval: spec.approval }),
    ...spec.type,
  })
  const task = defineTask({
    name,
    description,
    ingress_types: ['user_request', 'agent_action', 'scheduled_trigger', 'webhook'],
    sync_allowed: isBounded,
    async_required: !isBounded,
    approval_required: type.approval.required,
    artifact_output_possible: side_effects.some((effect) => effect.startsWith('artifact.')),
    memory_write_possible: side_effects.some((effect) => effect.startsWith('memory.')),
    notification_required: side_effects.some((effect) => effect.startsWith('notification.')),
    connector_requirements: [...new Set(connectors.map((connector) => connector.name))],
    policy_checks: policies,
    risk_level: type.risk_level,
    ...spec.task,
    command_type: name,
    function_name: name,
  })
  const fn = defineFunction({
    name,
    // The stored payload has passed the schema.
    plan: (payload) => listSteps(steps(payload as z.output<Input>)),
    ...(result && { result: (results: readonly unknown[]) => result(...(results as ResultsOf<Steps>)) }),
  })
  return Object.freeze({
    kind: 'command',
    name,
    taskName: task.spec.name,
    input,
    definitions: [...definitions, ...effects, fn, type, task],
    connectors,
  })
}

/** A payload with an unknown field is refused unless the schema says what unknown fields are. */
function strict(input: Schema): Schema {
  if (input.def.catchall) return input
  const closed = input.strict()
  const meta = input.meta()
  return meta ? closed.meta(meta) : closed
}

type AnySpec = Pick<CommandSpec<Schema, unknown, readonly CommandStep[], unknown>, 'input' | 'uses'> & {
  readonly steps: (input: never) => readonly CommandStep[]
}

/** The steps of every example of the input, and the operations in `uses`. A branch that no example reaches must be named there. */
function listUsed({ input, steps, uses = [] }: AnySpec): readonly Pick<CommandStep, 'effect_type' | 'source'>[] {
  const schema = z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' })
  const examples = exampleVariants(schema).flatMap((example) => {
    const parsed = input.safeParse(example)
    return parsed.success ? [parsed.data] : []
  })
  const found = examples.flatMap((example) => {
    try {
      return steps(example as never)
    } catch {
      // An example may be a request that the steps do not support.
      return []
    }
  })
  return [...uses, ...found]
}

function typesOf(spec: AnySpec): readonly string[] {
  return [...new Set(listUsed(spec).map(({ effect_type }) => effect_type))]
}

type Source = EffectDefinition | ConnectorDefinition

function findSources(spec: AnySpec): readonly Source[] {
  return [...new Set(listUsed(spec).map(({ source }) => source as Source))]
}

const operationsOf = (connectors: readonly ConnectorDefinition[], used: readonly string[]) =>
  connectors.flatMap(({ name, risk_level, operations }) =>
    operations
      .filter((operation) => used.includes(`connector.${name}.${operation.name}`))
      .map((operation) => ({ ...operation, risk_level: higherRisk(risk_level, operation.risk_level) })),
  )

function hasUndo(connectors: readonly ConnectorDefinition[], used: readonly string[]): boolean {
  return operationsOf(connectors, used).some(({ compensation }) => compensation)
}

function riskOf(
  effects: readonly EffectDefinition[],
  connectors: readonly ConnectorDefinition[],
  used: readonly string[],
): RiskLevel {
  const risks = [...effects, ...operationsOf(connectors, used)].map(({ risk_level }) => risk_level)
  return risks.reduce<RiskLevel>((highest, risk) => higherRisk(highest, risk), 'low')
}

/**
 * Turns the function into the template that the contract stores: each field becomes its placeholder. A function that does more than
 * insert fields is refused, since the stored template would give other keys.
 */
function templateOf<Input extends Schema>(
  name: string,
  key: string | ((input: z.output<Input>) => string),
  input: Input,
): string {
  if (typeof key === 'string') return key
  const fields = Object.keys(input.shape)
  const filled = (value: (field: string) => string) =>
    key(Object.fromEntries(fields.map((field) => [field, value(field)])) as z.output<Input>)
  const wrong = () =>
    new TypeError(
      `The key of ${name} does more than insert fields of the input; write a template such as '${name}:{${fields[0] ?? 'id'}}'`,
    )
  let template: string
  try {
    template = filled((field) => `{${field}}`)
    const parsed = parseKeyTemplate(template)
    const sample = Object.fromEntries(fields.map((field) => [field, `aB3 ${field}`]))
    const made = parsed.ok ? renderKey(parsed.value, sample) : parsed
    if (!made.ok || made.value !== filled((field) => `aB3 ${field}`)) throw wrong()
  } catch {
    throw wrong()
  }
  return template
}

type PolicyPart = {
  readonly policies: readonly string[]
  readonly definitions: readonly Definition[]
}

/** Everybody passes these rules before the policy of a command is asked. */
const ALWAYS = ['permission', 'data_safety']

function policyOf<Input extends Schema, Values, Steps extends readonly CommandStep[], Result>(
  name: string,
  { policy, facts }: CommandSpec<Input, Values, Steps, Result>,
): PolicyPart {
  if (typeof policy !== 'function') return { policies: policy, definitions: [] }
  const loaders = Object.entries<(of: FactInput<z.output<Input>>) => Promise<unknown>>(facts ?? {})
  const stored = (fact: string) => `${name}.${fact}`
  const rule = definePolicy(
    {
      name,
      category: 'approval_requirement',
      actions: '*',
      decide({ command, context }) {
        const loaded = factsOf(context['facts'])
        const { role, org_roles: orgRoles } = factsOf(context['metadata'])
        return policy(command['payload'] as z.output<Input>, {
          facts: Object.fromEntries(loaders.map(([fact]) => [fact, loaded[stored(fact)]])) as Values,
          requester: {
            role: String(role),
            orgRoles: Array.isArray(orgRoles) ? orgRoles.map(String) : [],
            isAgent: context['run_as'] === 'agent',
          },
        })
      },
    },
    { version: versionOf(policy), facts: loaders.map(([fact]) => stored(fact)) },
  )
  const sources = loaders.map(([fact, load]) =>
    defineFact(stored(fact), load as (of: FactInput<JsonObject>) => Promise<unknown>),
  )
  return { policies: [...ALWAYS, name], definitions: [...sources, rule] }
}

/** Changes with the text of the function, so that decisions under different rules can be told apart. */
function versionOf(decide: (...args: never[]) => unknown): string {
  return createHash('sha256').update(decide.toString()).digest('hex').slice(0, 8)
}

export type CatalogEntry = Definition | CommandDefinition

/** Replaces each command by its definitions, without repeating an effect that several commands share. */
export function expandCatalog(entries: readonly CatalogEntry[]): {
  readonly catalog: readonly Definition[]
  readonly connectors: readonly ConnectorDefinition[]
} {
  const commands = entries.filter((entry): entry is CommandDefinition => entry.kind === 'command')
  return {
    catalog: [...new Set(entries.flatMap((entry) => (entry.kind === 'command' ? entry.definitions : [entry])))],
    connectors: [...new Set(commands.flatMap(({ connectors }) => connectors))],
  }
}
