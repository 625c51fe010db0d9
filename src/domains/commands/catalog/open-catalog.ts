/** Compiles everything that is registered into what submit and drive look up, or refuses to start with all findings at once. */
import { compensationPolicy, defineRetryPolicy, registerRetryPolicies, type RetryRegistry } from '#kernel/retry-policy'
import { retryableErrorClasses } from '#kernel/error-classes'
import { type KeyContract, type KeyTemplate, parseKeyTemplate } from '#kernel/idempotency-key'
import { compileRules, type Policy } from '#kernel/policy/policy'
import { accept, type Decision } from '#kernel/refusal'
import { type RuntimeCapability, runtimeCapabilities } from '#kernel/saga/catalog'
import { chooseQueue, type QueueName, queueNames } from './primitives.ts'
import { findUnsafeTools } from './agent-checks.ts'
import { findAgentGaps } from './agent-questions.ts'
import {
  findContractGaps,
  findDuplicates,
  findEffectFlaws,
  findSagaFlaws,
  findScheduleFlaws,
  findTypeFlaws,
  findUnknownNames,
  nameOf,
  only,
} from './catalog-checks.ts'
import type { CommandType, ConnectorOperation, Definition, FunctionDefinition, ScheduleSpec } from './definitions.ts'
import type { EffectDefinition, UndoDefinition } from './effect-definition.ts'
import { type CatalogFinding, finding, refuseFindings } from './finding.ts'
import { findMappingGaps, gapFindings } from './mapping-lint.ts'
import { checkShapes } from './shape-checks.ts'
import type { TaskSpec } from './task-spec.ts'

export type CompiledTask = {
  readonly spec: TaskSpec
  readonly type: CommandType
  readonly fn: FunctionDefinition
  readonly policy: Policy
  readonly policyNames: readonly string[]
  readonly factNames: readonly string[]
  readonly key: KeyContract
  /** Where its turns wait: the queue of its effects, if they all share one. */
  readonly queue: QueueName
}

type CompiledEffect = {
  readonly definition: EffectDefinition
  readonly operation: ConnectorOperation | undefined
  readonly keyTemplate: KeyTemplate | undefined
}

export type Catalog = {
  readonly tasks: ReadonlyMap<string, CompiledTask>
  /** The task that a command of this type runs as when it names none. */
  readonly taskOfType: ReadonlyMap<string, CompiledTask>
  readonly effects: ReadonlyMap<string, CompiledEffect>
  readonly undos: ReadonlyMap<string, { readonly undo: UndoDefinition; readonly of: EffectDefinition }>
  readonly retries: RetryRegistry
  readonly schedules: readonly ScheduleSpec[]
  readonly queues: readonly string[]
  readonly warnings: readonly CatalogFinding[]
}

export type CatalogHost = {
  readonly name: string
  readonly capabilities: readonly RuntimeCapability[]
  readonly queues: readonly string[]
}

/** A runtime with everything, for tests and for a catalog that is only looked at. */
export const anyHost: CatalogHost = { name: 'any', capabilities: runtimeCapabilities, queues: queueNames }

export function openCatalog(definitions: readonly Definition[], host: CatalogHost): Decision<Catalog> {
  const shaped = checkShapes(definitions)
  if (!shaped.ok) return shaped
  const types = new Map(only(definitions, 'command_type').map((type) => [type.name, type]))
  const effects = only(definitions, 'effect')
  const gaps = only(definitions, 'task').map(({ spec }) => ({
    spec,
    gaps: findMappingGaps(spec, types.get(spec.command_type)),
  }))
  const findings: CatalogFinding[] = [
    ...findDuplicates(definitions),
    ...findUnknownNames(definitions),
    ...[...types.values()].flatMap(findContractGaps),
    ...[...types.values()].flatMap(findTypeFlaws),
    ...gaps.flatMap(({ spec, gaps: all }) =>
      gapFindings(
        spec,
        all.filter(({ isWarning }) => !isWarning),
      ),
    ),
    ...gaps.flatMap(({ spec }) => findAgentGaps(spec, types.get(spec.command_type))),
    ...findUnsafeTools(definitions),
    ...effects.flatMap((effect) => findEffectFlaws(effect, definitions)),
    ...findScheduleFlaws(definitions, host.queues),
    ...queueNames
      .filter((name) => !host.queues.includes(name))
      .map((name) => finding('unknown_queue', name, `the runtime has not registered the queue ${name}`)),
    ...findSagaFlaws(effects, { name: host.name, capabilities: host.capabilities }),
  ]
  const retries = registerRetryPolicies(retryPolicies(definitions))
  if (!retries.ok) findings.push(finding(retries.code, 'retry_policy', retries.reason))
  if (findings.length > 0 || !retries.ok) return refuseFindings(findings)
  const tasks = compileTasks(definitions, types)
  if (!tasks.ok) return refuseFindings([finding(tasks.code, 'policy', tasks.reason)])
  return accept({
    tasks: new Map(tasks.value.map((task) => [task.spec.name, task])),
    taskOfType: new Map([...tasks.value].reverse().map((task) => [task.type.name, task])),
    effects: new Map(effects.map((definition) => [definition.effect_type, compileEffect(definition, definitions)])),
    undos: new Map(effects.flatMap((of) => (of.undo ? [[of.undo.name, { undo: of.undo, of }] as const] : []))),
    retries: retries.value,
    schedules: only(definitions, 'schedule').map(({ spec }) => spec),
    queues: host.queues,
    warnings: gaps.flatMap(({ spec, gaps: all }) =>
      gapFindings(
        spec,
        all.filter(({ isWarning }) => isWarning),
      ),
    ),
  })
}

/** Operations without a policy of their own may be tried like any other; those of connectors must bring one. */
function retryPolicies(definitions: readonly Definition[]) {
  const given = only(definitions, 'retry_policy').map(({ policy }) => policy)
  const named = new Set([...given.map(({ operation }) => operation), compensationPolicy.operation])
  const rest = only(definitions, 'effect').filter(({ operation }) => !named.has(operation))
  const others = rest.map(({ operation }) => defineRetryPolicy({ operation, retryable: retryableErrorClasses }))
  return [
    ...(given.some(({ operation }) => operation === compensationPolicy.operation) ? [] : [compensationPolicy]),
    ...given,
    ...others,
  ]
}

function compileTasks(
  definitions: readonly Definition[],
  types: ReadonlyMap<string, CommandType>,
): Decision<readonly CompiledTask[]> {
  const policies = new Map(only(definitions, 'policy').map((policy) => [nameOf(policy), policy]))
  const functions = new Map(only(definitions, 'function').map((fn) => [fn.name, fn]))
  const tasks: CompiledTask[] = []
  for (const { spec } of only(definitions, 'task')) {
    const [type, fn] = [types.get(spec.command_type), functions.get(spec.function_name)]
    if (!type || !fn) continue
    const names = [...new Set([...type.policies, ...spec.policy_checks])]
    const chosen = names.flatMap((name) => policies.get(name) ?? [])
    const policy = compileRules(
      chosen.map(({ rule, version }) => `${rule.name}@${version}`).join(' '),
      chosen.map(({ rule }) => rule),
    )
    if (!policy.ok) return policy
    const template =
      type.idempotency.key_template === undefined ? undefined : parseKeyTemplate(type.idempotency.key_template)
    const key = { required: type.idempotency.required, ...(template?.ok ? { template: template.value } : {}) }
    const factNames = [...new Set(chosen.flatMap(({ facts }) => facts))]
    tasks.push({ spec, type, fn, policy: policy.value, policyNames: names, factNames, key, queue: queueOf(type) })
  }
  return accept(tasks)
}

function queueOf({ side_effects }: Pick<CommandType, 'side_effects'>): QueueName {
  const queues = new Set(side_effects.map((effect_type) => chooseQueue({ effect_type })))
  const [shared] = queues
  return queues.size === 1 && shared !== undefined ? shared : 'concord_default'
}

function compileEffect(definition: EffectDefinition, definitions: readonly Definition[]): CompiledEffect {
  const operation = only(definitions, 'connector_operation').find(
    (each) => nameOf(each) === definition.operation,
  )?.operation
  const text = definition.key_template ?? operation?.idempotency_key_template ?? undefined
  const template = text === undefined ? undefined : parseKeyTemplate(text)
  return { definition, operation, keyTemplate: template?.ok ? template.value : undefined }
}
