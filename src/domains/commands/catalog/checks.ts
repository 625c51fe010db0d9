/** The checks of a whole catalog: names, references, contracts, keys, queues, schedules, retries, compensations, tools of agents. Pure. */
import { findApprovalTypeFault } from '#domains/approvals'
import { isImpossibleDate, parseCron, parseTimeZone } from '#kernel/cron'
import { parseKeyTemplate } from '#kernel/idempotency-key'
import { didYouMean } from '#kernel/nearest'
import { quote } from '#kernel/refusal'
import { type CatalogRuntime, validateCatalog } from '#kernel/saga/catalog'
import { SCHEDULE_JITTER_MAX_MS } from '#kernel/schedule'
import { approvalTermsOf } from '../approval-types.ts'
import { type CommandType, type ConnectorOperation, type Definition, definitionName, ofKind } from './definitions.ts'
import type { EffectDefinition } from './effect-definition.ts'
import { queueNames } from './primitives.ts'
import type { CatalogFinding } from './shape-checks.ts'

export type CatalogHost = CatalogRuntime & { readonly queues: readonly string[] }

/** All errors except those of single tasks (`task-questions.ts`). */
export function findCatalogErrors(definitions: readonly Definition[], host: CatalogHost): readonly CatalogFinding[] {
  const effects = ofKind(definitions, 'effect')
  return [
    ...findDuplicates(definitions),
    ...findUnknownNames(definitions),
    ...ofKind(definitions, 'command_type').flatMap(checkCommandType),
    ...checkAgentTools(definitions),
    ...effects.flatMap((effect) => checkEffect(effect, definitions)),
    ...checkSchedules(definitions, host.queues),
    ...queueNames
      .filter((name) => !host.queues.includes(name))
      .map((name) => ({
        rule: 'unknown_queue',
        subject: name,
        message: `the runtime has not registered the queue ${name}`,
      })),
    ...checkCompensations(effects, host),
  ]
}

type Check = readonly [isWrong: boolean, rule: string, problem: string]

/** The failed checks of one definition; each problem continues the sentence that `subject` begins. */
function failed(subject: string, checks: readonly Check[]): readonly CatalogFinding[] {
  return checks
    .filter(([isWrong]) => isWrong)
    .map(([, rule, problem]) => ({ rule, subject, message: `${quote(subject)} ${problem}` }))
}

function findDuplicates(definitions: readonly Definition[]): readonly CatalogFinding[] {
  const seen = new Set<string>()
  return definitions.flatMap((definition) => {
    const name = definitionName(definition)
    const key = `${definition.kind} ${name}`
    const isTaken = seen.has(key)
    seen.add(key)
    return failed(name, [[isTaken, 'duplicate_name', `is the name of two definitions of the kind ${definition.kind}`]])
  })
}

/** Every name that a definition refers to must be defined. */
function findUnknownNames(definitions: readonly Definition[]): readonly CatalogFinding[] {
  const unknown = (kind: Definition['kind'], rule: string) => {
    const known = new Set(ofKind(definitions, kind).map(definitionName))
    return (subject: string, names: readonly string[]) =>
      names.flatMap((name) => {
        const problem = `names ${quote(name)}, which is not defined. ${didYouMean(name, known).hint ?? ''}`.trim()
        return failed(subject, [[!known.has(name), rule, problem]])
      })
  }
  const functions = unknown('function', 'unknown_function')
  const policies = unknown('policy', 'unknown_policy')
  const types = unknown('command_type', 'unknown_command_type')
  const effects = unknown('effect', 'unknown_effect')
  const undoable = new Set(ofKind(definitions, 'effect').flatMap(({ effect_type, undo }) => (undo ? effect_type : [])))
  return [
    ...ofKind(definitions, 'task').flatMap(({ spec }) => [
      ...functions(spec.name, [spec.function_name]),
      ...policies(spec.name, spec.policy_checks),
    ]),
    ...ofKind(definitions, 'command_type').flatMap((type) => [
      ...policies(type.name, type.policies),
      ...effects(type.name, type.side_effects),
      ...failed(type.name, [
        [
          type.on_failure === 'undo' && !type.side_effects.some((name) => undoable.has(name)),
          'nothing_to_undo',
          'has `on_failure: undo`, but none of its side effects has an undo',
        ],
      ]),
    ]),
    ...ofKind(definitions, 'schedule').flatMap(({ spec }) => types(spec.name, [spec.command_type])),
  ]
}

/** As in `book_hotel`: approvals, queues and metrics use the name too. */
const TYPE_NAME = /^[a-z][a-z0-9_]{0,63}$/

/** The seven parts of the contract, the name, and approval terms that the approvals room accepts. */
function checkCommandType(type: CommandType): readonly CatalogFinding[] {
  const { approval } = type
  const isNamed = TYPE_NAME.test(type.name)
  const terms = isNamed ? findApprovalTypeFault(approvalTermsOf(type)) : undefined
  const lacks = (part: string) => `has a contract without ${part}`
  return failed(type.name, [
    [type.description.trim() === '', 'contract_gap', lacks('a description')],
    [type.error_classes.length === 0, 'contract_gap', lacks('error_classes')],
    [type.cancellable_by.length === 0, 'contract_gap', lacks('cancellable_by')],
    [type.audit.length === 0, 'contract_gap', lacks('audit')],
    [approval.required && approval.approver.trim() === '', 'contract_gap', lacks('an approver')],
    checkKeyTemplate(type.idempotency.key_template),
    [
      !isNamed,
      'type_name',
      'is not a name in lower_snake_case: a letter, then letters, digits and _, at most 64 characters, such as book_hotel',
    ],
    [terms !== undefined, 'approval_terms', `has an approval whose type ${quote(approval.approval_type)} ${terms}`],
  ])
}

function checkKeyTemplate(template: string | null | undefined): Check {
  const parsed = template === undefined || template === null ? undefined : parseKeyTemplate(template)
  const reason = parsed && !parsed.ok ? parsed.reason : undefined
  return [reason !== undefined, 'key_template', `has an invalid key template: ${reason}`]
}

/** Effects that pass data to another system or store it. */
const guarded = ['connector.', 'notification.', 'memory.', 'artifact.publish']

/** An agent tool that passes data on or stores it must check a data safety rule. */
function checkAgentTools(definitions: readonly Definition[]): readonly CatalogFinding[] {
  const types = new Map(ofKind(definitions, 'command_type').map((type) => [type.name, type]))
  const rules = ofKind(definitions, 'policy').map(({ rule }) => rule)
  const safe = new Set(rules.filter(({ category }) => category === 'data_safety').map(({ name }) => name))
  return ofKind(definitions, 'task').flatMap(({ spec }) => {
    const type = types.get(spec.command_type)
    if (!type || !spec.ingress_types.includes('agent_action')) return []
    const effect = type.side_effects.find((name) => guarded.some((prefix) => name.startsWith(prefix))) ?? ''
    const isSafe = effect === '' || [...type.policies, ...spec.policy_checks].some((name) => safe.has(name))
    const problem = `is open to agents and does ${quote(effect)}, but checks no rule of the category data_safety`
    return failed(spec.name, [[!isSafe, 'agent_data_safety', problem]])
  })
}

export function findOperation(
  effect: EffectDefinition,
  definitions: readonly Definition[],
): ConnectorOperation | undefined {
  return ofKind(definitions, 'connector_operation').find((each) => definitionName(each) === effect.operation)?.operation
}

function checkEffect(effect: EffectDefinition, definitions: readonly Definition[]): readonly CatalogFinding[] {
  const isConnector = effect.effect_type.startsWith('connector.')
  const operation = findOperation(effect, definitions)
  const retried = ofKind(definitions, 'retry_policy').some(({ policy }) => policy.operation === effect.operation)
  const lacksLookup = [effect, effect.undo].some((handler) => handler?.class === 'queryable' && !handler.find)
  const disagrees = operation !== undefined && operation.side_effect !== (effect.class !== 'read')
  const dropsKey = operation?.idempotency_required === true && effect.class === 'opaque'
  const called = `calls the operation ${quote(effect.operation)}`
  return failed(effect.effect_type, [
    [isConnector && !operation, 'unknown_operation', `${called}, which has no contract`],
    [isConnector && !retried, 'missing_retry_policy', `${called}, which has no retry policy`],
    [lacksLookup, 'missing_lookup', 'is queryable, but has no find'],
    [disagrees, 'side_effect', 'and its operation disagree about having a side effect'],
    [dropsKey, 'key_unused', 'must pass on an idempotency key, but its provider takes none'],
    checkKeyTemplate(effect.key_template ?? operation?.idempotency_key_template),
  ])
}

function checkSchedules(definitions: readonly Definition[], queues: readonly string[]): readonly CatalogFinding[] {
  return ofKind(definitions, 'schedule').flatMap(({ spec }) => {
    const { jitter_ms: jitterMs = 0, queue } = spec
    const cron = parseCron(spec.cron)
    const zone = parseTimeZone(spec.time_zone ?? 'UTC')
    const isJitter = Number.isInteger(jitterMs) && jitterMs >= 0 && jitterMs <= SCHEDULE_JITTER_MAX_MS
    const refused = [zone, cron].flatMap((parsed) => (parsed.ok ? [] : [parsed]))
    return failed(spec.name, [
      ...refused.map(({ code, reason }): Check => [true, code, `cannot fire: ${reason}`]),
      [!isJitter, 'schedule_jitter', 'has a jitter that is not between 0 and one hour'],
      [cron.ok && isImpossibleDate(cron.value), 'cron_never', 'would never fire'],
      [!queues.includes(queue), 'unknown_queue', `names the queue ${quote(queue)}, which is not registered`],
    ])
  })
}

/** The checks of the kernel: missing or too deep compensations, cycles, false inverses, missing capabilities. */
function checkCompensations(effects: readonly EffectDefinition[], host: CatalogHost): readonly CatalogFinding[] {
  const compensations = effects.flatMap(({ operation, undo }) =>
    undo ? [{ ...undo, compensation: undo.name, of: operation }] : [],
  )
  const checked = validateCatalog({ operations: effects, compensations }, host)
  return checked.ok ? [] : ((checked.facts?.['findings'] ?? []) as CatalogFinding[])
}
