/** A command as one typed definition. It derives the command type, the task, the function, the policy and the facts of the layer below. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { ConnectorDefinition } from '#domains/connectors'
import { errorClasses } from '#kernel/error-classes'
import { exampleVariants } from '#kernel/example-payload'
import { parseKeyTemplate, renderKey } from '#kernel/idempotency-key'
import { isPlainObject, type JsonObject } from '#kernel/json-value'
import { higherRisk, type PolicyAnswer, type RiskLevel } from '#kernel/policy/policy'
import { listSteps, type Operation, type CommandStep } from '#kernel/step'
import { deny } from './answers.ts'
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
import { checkFields } from './place.ts'
import { hasPrimitive } from './primitives.ts'
import { factsOf } from './shipped-policies.ts'
import type { ShippedSource } from './steps.ts'

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
  /** Overrides of the derived task. `policy_checks` are asked in addition. */
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

const FIELDS: readonly (keyof CommandSpec<Schema, unknown, readonly CommandStep[], unknown>)[] = [
  ...(['input', 'description', 'key', 'facts', 'policy', 'steps', 'uses', 'result'] as const),
  ...(['onFailure', 'risk', 'approval', 'type', 'task'] as const),
]

const AUDIT = ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed']

export function defineCommand<
  Input extends Schema,
  const Steps extends readonly CommandStep[],
  Values = unknown,
  Result = LastOf<Steps>,
>(name: string, spec: CommandSpec<Input, Values, Steps, Result>): CommandDefinition<Input, Result> {
  checkFields(name, spec, FIELDS)
  const { input, description = name, steps, result } = spec
  const used = listUsed(name, spec)
  const sources = [...new Set(used.map(({ source }) => source))]
  const effects = sources.filter((source): source is EffectDefinition => source.kind === 'effect')
  const connectors = sources.filter((source): source is ConnectorDefinition => source.kind === 'connector')
  const side_effects = [...new Set(used.map(({ effect_type }) => effect_type))]
  const canUndo = effects.some(({ undo }) => undo) || hasUndo(connectors, side_effects)
  const risk_level = spec.risk ?? riskOf(effects, connectors, side_effects)
  const key_template = spec.key === undefined ? undefined : templateOf(name, spec.key, input)
  const { policies, definitions } = policyOf(name, spec)
  const isBounded = side_effects.length === 1 && effects.length === 1 && effects.every(({ bounded }) => bounded)
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
    artifact_output_possible: hasPrimitive(side_effects, 'artifact_write'),
    memory_write_possible: hasPrimitive(side_effects, 'memory_write'),
    notification_required: hasPrimitive(side_effects, 'notification'),
    connector_requirements: [...new Set(connectors.map((connector) => connector.name))],
    risk_level: type.risk_level,
    ...spec.task,
    policy_checks: [...new Set([...policies, ...(spec.task?.policy_checks ?? [])])],
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

type Used = { readonly effect_type: string; readonly source: EffectDefinition | ConnectorDefinition | ShippedSource }

/** The steps of every example of the input, and the operations in `uses`. A branch that no example reaches must be named there. */
function listUsed(name: string, { input, steps, uses = [] }: AnySpec): readonly Used[] {
  const examples = examplesOf(input)
  const errors: unknown[] = []
  const found = examples.flatMap((example) => {
    try {
      const listed = steps(example as never)
      listSteps(listed)
      return listed
    } catch (error) {
      // An example may be a request that the steps do not support.
      errors.push(error)
      return []
    }
  })
  const used = [...uses, ...found] as readonly Used[]
  if (used.length > 0) return used
  if (errors.length > 0) throw new TypeError(`The steps of ${name} fail: ${String(errors[0])}`, { cause: errors[0] })
  throw new TypeError(
    examples.length === 0
      ? `No example that Concord makes fits the input of ${name}; add one with .meta({ example: { … } }), or name its operations in uses`
      : `No step of ${name} was found; name its operations in uses`,
  )
}

function examplesOf(input: Schema): readonly unknown[] {
  const schema = z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' })
  return exampleVariants(schema).flatMap((example) => {
    const parsed = input.safeParse(example)
    if (parsed.success && !isJson(parsed.data))
      throw new TypeError('The input of a command is JSON: keep dates as texts, such as z.iso.date()')
    return parsed.success ? [parsed.data] : []
  })
}

function isJson(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isJson)
  if (typeof value !== 'object' || value === null) return value === undefined || JSON.stringify(value) !== undefined
  return isPlainObject(value) && Object.values(value).every(isJson)
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
  let template = ''
  let isSame = false
  try {
    template = key(placeholder('') as z.output<Input>)
    const parsed = parseKeyTemplate(template)
    isSame =
      parsed.ok &&
      parsed.value.parts.some((part) => typeof part !== 'string') &&
      examplesOf(input).every((example) => {
        const made = renderKey(parsed.value, example as JsonObject)
        return !made.ok || made.value === key(example as z.output<Input>)
      })
  } catch {
    isSame = false
  }
  if (isSame) return template
  throw new TypeError(
    `The key of ${name} does more than insert fields of the input; write a template such as '${name}:{${fields[0] ?? 'id'}}'`,
  )
}

/** Stands for a field: as a text it is its placeholder, a field of it is another one, and everything else throws. */
function placeholder(path: string): unknown {
  return new Proxy(Object.create(null) as object, {
    get(_target, name) {
      if (name === Symbol.toPrimitive) return () => `{${path}}`
      if (typeof name === 'symbol' || name in String.prototype || name in Number.prototype)
        throw new TypeError('A key only inserts fields.')
      return placeholder(path === '' ? name : `${path}.${name}`)
    },
  })
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
  if (typeof policy !== 'function') {
    if (facts) throw new TypeError(`The facts of ${name} need a policy that is a function`)
    return { policies: [...ALWAYS, ...policy], definitions: [] }
  }
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
        const answer: PolicyAnswer | undefined = policy(command['payload'] as z.output<Input>, {
          facts: Object.fromEntries(loaders.map(([fact]) => [fact, loaded[stored(fact)]])) as Values,
          requester: {
            role: String(role),
            orgRoles: Array.isArray(orgRoles) ? orgRoles.map(String) : [],
            isAgent: context['run_as'] === 'agent',
          },
        })
        // Without types a function may return nothing. Silence is no consent.
        return answer ?? deny('The policy gave no answer.')
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
