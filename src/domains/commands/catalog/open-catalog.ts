/** Compiles the definitions into the catalog that submit and drive look up, or refuses with all errors at once. */
import { compensationPolicy, defineRetryPolicy, registerRetryPolicies, type RetryRegistry } from '#kernel/retry-policy'
import { retryableErrorClasses } from '#kernel/error-classes'
import { type KeyContract, type KeyTemplate, parseKeyTemplate } from '#kernel/idempotency-key'
import { compileRules, type Policy } from '#kernel/policy/policy'
import { accept, type Decision } from '#kernel/refusal'
import { runtimeCapabilities } from '#kernel/saga/catalog'
import { agentPolicies } from './agent-policies.ts'
import { type CatalogHost, findCatalogErrors, findOperation } from './checks.ts'
import {
  type CommandType,
  type ConnectorOperation,
  type Definition,
  definitionName,
  type FactDefinition,
  type FunctionDefinition,
  ofKind,
  type PolicyDefinition,
  type ScheduleSpec,
  type TaskSpec,
} from './definitions.ts'
import type { EffectDefinition, UndoDefinition } from './effect-definition.ts'
import { chooseQueue, type QueueName, queueNames } from './primitives.ts'
import { atPlace, type CatalogFinding, checkShapes, refuseFindings } from './shape-checks.ts'
import { findTaskGaps } from './task-questions.ts'

type TaskRules = {
  readonly policy: Policy
  readonly policyNames: readonly string[]
  readonly factNames: readonly string[]
}

export type CompiledTask = TaskRules & {
  readonly spec: TaskSpec
  readonly type: CommandType
  readonly fn: FunctionDefinition
  /** Its rules for what an agent proposes: those of the task and those about agents. */
  readonly forAgents: TaskRules
  readonly key: KeyContract
  /** The queue of its turns: that of its effects if they share one. */
  readonly queue: QueueName
}

type CompiledEffect = {
  readonly definition: EffectDefinition
  readonly operation: ConnectorOperation | undefined
  readonly keyTemplate: KeyTemplate | undefined
}

export type Catalog = {
  readonly tasks: ReadonlyMap<string, CompiledTask>
  /** The task of a command that names only its type. */
  readonly taskOfType: ReadonlyMap<string, CompiledTask>
  readonly effects: ReadonlyMap<string, CompiledEffect>
  readonly undos: ReadonlyMap<string, { readonly undo: UndoDefinition; readonly of: EffectDefinition }>
  readonly retries: RetryRegistry
  /** The facts of the project, by name. */
  readonly facts: ReadonlyMap<string, FactDefinition>
  readonly schedules: readonly ScheduleSpec[]
  readonly queues: readonly string[]
  readonly warnings: readonly CatalogFinding[]
}

/** A runtime with every capability, for tests and for a catalog that is only read. */
export const anyHost: CatalogHost = { name: 'any', capabilities: runtimeCapabilities, queues: queueNames }

export function openCatalog(definitions: readonly Definition[], host: CatalogHost): Decision<Catalog> {
  const shaped = checkShapes(definitions)
  if (!shaped.ok) return shaped
  const types = new Map(ofKind(definitions, 'command_type').map((type) => [type.name, type]))
  const effects = ofKind(definitions, 'effect')
  const gaps = ofKind(definitions, 'task').map(({ spec }) => findTaskGaps(spec, types.get(spec.command_type)))
  const findings = [...findCatalogErrors(definitions, host), ...gaps.flatMap(({ errors }) => errors)]
  const retries = registerRetryPolicies(retryPolicies(definitions))
  if (!retries.ok) findings.push({ rule: retries.code, subject: 'retry_policy', message: retries.reason })
  if (findings.length > 0 || !retries.ok)
    return refuseFindings(
      findings.map((finding) => ({
        ...finding,
        ...atPlace(definitions.find((definition) => definitionName(definition) === finding.subject)),
      })),
    )
  const tasks = compileTasks(definitions, types)
  if (!tasks.ok) return refuseFindings([{ rule: tasks.code, subject: 'policy', message: tasks.reason }])
  return accept({
    tasks: new Map(tasks.value.map((task) => [task.spec.name, task])),
    taskOfType: new Map([...tasks.value].reverse().map((task) => [task.type.name, task])),
    effects: new Map(effects.map((definition) => [definition.effect_type, compileEffect(definition, definitions)])),
    undos: new Map(effects.flatMap((of) => (of.undo ? [[of.undo.name, { undo: of.undo, of }] as const] : []))),
    retries: retries.value,
    facts: new Map(ofKind(definitions, 'fact').map((fact) => [fact.name, fact])),
    schedules: ofKind(definitions, 'schedule').map(({ spec }) => spec),
    queues: host.queues,
    warnings: gaps.flatMap(({ warnings }) => warnings),
  })
}

/** Operations without a retry policy get the default; those of connectors must have their own. */
function retryPolicies(definitions: readonly Definition[]) {
  const defaults = ofKind(definitions, 'effect').map(({ operation }) =>
    defineRetryPolicy({ operation, retryable: retryableErrorClasses }),
  )
  const given = ofKind(definitions, 'retry_policy').map(({ policy }) => policy)
  const last = new Map([...defaults, compensationPolicy, ...given].map((policy) => [policy.operation, policy]))
  return [...last.values()]
}

function compileTasks(
  definitions: readonly Definition[],
  types: ReadonlyMap<string, CommandType>,
): Decision<readonly CompiledTask[]> {
  const policies = new Map(ofKind(definitions, 'policy').map((policy) => [definitionName(policy), policy]))
  const functions = new Map(ofKind(definitions, 'function').map((fn) => [fn.name, fn]))
  const tasks: CompiledTask[] = []
  for (const { spec } of ofKind(definitions, 'task')) {
    const [type, fn] = [types.get(spec.command_type), functions.get(spec.function_name)]
    if (!type || !fn) continue
    const asked = [...new Set([...type.policies, ...spec.policy_checks])].filter((name) => !isAdded(name))
    const chosen = asked.flatMap((name) => policies.get(name) ?? [])
    const rules = compilePolicies(asked, chosen)
    if (!rules.ok) return rules
    const forAgents = compilePolicies([...asked, ...agentPolicies.map(definitionName)], [...chosen, ...agentPolicies])
    if (!forAgents.ok) return forAgents
    const template = keyTemplateOf(type.idempotency.key_template)
    const key = { required: type.idempotency.required, ...(template && { template }) }
    tasks.push({ spec, type, fn, ...rules.value, forAgents: forAgents.value, key, queue: queueOf(type) })
  }
  return accept(tasks)
}

function compilePolicies(policyNames: readonly string[], chosen: readonly PolicyDefinition[]): Decision<TaskRules> {
  const policy = compileRules(
    chosen.map(({ rule, version }) => `${rule.name}@${version}`).join(' '),
    chosen.map(({ rule }) => rule),
  )
  if (!policy.ok) return policy
  const factNames = [...new Set(chosen.flatMap(({ facts }) => facts))]
  return accept({ policy: policy.value, policyNames, factNames })
}

/** A definition of the project with the name of such a rule does not replace it. */
const isAdded = (name: string) => agentPolicies.some((policy) => definitionName(policy) === name)

function queueOf({ side_effects }: Pick<CommandType, 'side_effects'>): QueueName {
  const queues = new Set(side_effects.map((effect_type) => chooseQueue({ effect_type })))
  const [shared] = queues
  return queues.size === 1 && shared !== undefined ? shared : 'concord_default'
}

function compileEffect(definition: EffectDefinition, definitions: readonly Definition[]): CompiledEffect {
  const operation = findOperation(definition, definitions)
  return {
    definition,
    operation,
    keyTemplate: keyTemplateOf(definition.key_template ?? operation?.idempotency_key_template),
  }
}

/** Undefined without a template; the checks have refused invalid ones. */
function keyTemplateOf(text: string | null | undefined): KeyTemplate | undefined {
  const parsed = text === undefined || text === null ? undefined : parseKeyTemplate(text)
  return parsed?.ok ? parsed.value : undefined
}
