/** The checks that need the whole catalog: names, references, contracts, keys, queues, schedules, retries, compensations. Pure. */
import { findApprovalTypeFault } from '#domains/approvals'
import { isImpossibleDate, parseCron, parseTimeZone } from '#kernel/cron'
import { parseKeyTemplate } from '#kernel/idempotency-key'
import { didYouMean } from '#kernel/nearest'
import { quote } from '#kernel/refusal'
import { type CatalogRuntime, validateCatalog } from '#kernel/saga/catalog'
import { SCHEDULE_JITTER_MAX_MS } from '#kernel/schedule'
import { approvalTermsOf } from '../approval-types.ts'
import type { CommandType, Definition } from './definitions.ts'
import type { EffectDefinition } from './effect-definition.ts'
import { type CatalogFinding, finding } from './finding.ts'

type Of<K extends Definition['kind']> = Extract<Definition, { kind: K }>

export function only<K extends Definition['kind']>(definitions: readonly Definition[], kind: K): readonly Of<K>[] {
  return definitions.filter((each): each is Of<K> => each.kind === kind)
}

export function nameOf(definition: Definition): string {
  switch (definition.kind) {
    case 'command_type':
    case 'function':
      return definition.name
    case 'task':
    case 'schedule':
      return definition.spec.name
    case 'effect':
      return definition.effect_type
    case 'policy':
      return definition.rule.name
    case 'connector_operation':
      return `${definition.operation.connector}.${definition.operation.operation}`
    case 'retry_policy':
      return definition.policy.operation
  }
}

export function findDuplicates(definitions: readonly Definition[]): readonly CatalogFinding[] {
  const seen = new Set<string>()
  return definitions.flatMap((definition) => {
    const name = nameOf(definition)
    const key = `${definition.kind} ${name}`
    if (seen.has(key))
      return [
        finding('duplicate_name', name, `two definitions of the kind ${definition.kind} are called ${quote(name)}`),
      ]
    seen.add(key)
    return []
  })
}

/** Every name that a task uses must stand for something. */
export function findUnknownNames(definitions: readonly Definition[]): readonly CatalogFinding[] {
  const names = (kind: Definition['kind']) => new Set(only(definitions, kind).map(nameOf))
  const [functions, policies, types, effects] = [
    names('function'),
    names('policy'),
    names('command_type'),
    names('effect'),
  ]
  const unknown = (rule: string, subject: string, name: string, known: ReadonlySet<string>) =>
    known.has(name)
      ? []
      : [
          finding(
            rule,
            subject,
            `${quote(subject)} names ${quote(name)}, which nobody defined. ${didYouMean(name, known).hint ?? ''}`.trim(),
          ),
        ]
  return [
    ...only(definitions, 'task').flatMap(({ spec }) => [
      ...unknown('unknown_function', spec.name, spec.function_name, functions),
      ...spec.policy_checks.flatMap((policy) => unknown('unknown_policy', spec.name, policy, policies)),
    ]),
    ...only(definitions, 'command_type').flatMap((type) => [
      ...type.policies.flatMap((policy) => unknown('unknown_policy', type.name, policy, policies)),
      ...type.side_effects.flatMap((effect) => unknown('unknown_effect', type.name, effect, effects)),
    ]),
    ...only(definitions, 'schedule').flatMap(({ spec }) =>
      unknown('unknown_command_type', spec.name, spec.command_type, types),
    ),
  ]
}

/** The seven parts of a contract; a type without one of them is not registered. */
export function findContractGaps(type: CommandType): readonly CatalogFinding[] {
  const gaps = [
    type.description.trim() === '' ? 'what it is' : undefined,
    type.error_classes.length === 0 ? 'its error classes' : undefined,
    type.cancellable_by.length === 0 ? 'who may cancel it' : undefined,
    type.audit.length === 0 ? 'what audit it must leave' : undefined,
    type.approval.required && type.approval.approver.trim() === '' ? 'who approves it' : undefined,
  ].filter((gap) => gap !== undefined)
  const template = type.idempotency.key_template
  const parsed = template === undefined ? undefined : parseKeyTemplate(template)
  return [
    ...gaps.map((gap) => finding('contract_gap', type.name, `the contract of ${quote(type.name)} does not say ${gap}`)),
    ...(parsed && !parsed.ok ? [finding('key_template', type.name, parsed.reason)] : []),
  ]
}

/** As in `book_hotel`: it names approvals, queues and metrics too. */
const TYPE_NAME = /^[a-z][a-z0-9_]{0,63}$/

/** A name that others can build on, and approval terms that the approvals room would take. */
export function findTypeFlaws(type: CommandType): readonly CatalogFinding[] {
  const place = `command_type ${quote(type.name)}`
  const rule = 'lower_snake_case: a letter, then letters, digits and _, at most 64 characters'
  if (!TYPE_NAME.test(type.name))
    return [finding('type_name', type.name, `${place}: name is not ${rule}, such as book_hotel`)]
  const fault = findApprovalTypeFault(approvalTermsOf(type))
  if (fault === undefined) return []
  const { approval_type } = type.approval
  return [finding('approval_terms', type.name, `${place}: approval: the type ${quote(approval_type)} ${fault}`)]
}

export function findEffectFlaws(
  effect: EffectDefinition,
  definitions: readonly Definition[],
): readonly CatalogFinding[] {
  const flaw = (rule: string, message: string) =>
    finding(rule, effect.effect_type, `${quote(effect.effect_type)} ${message}`)
  const isConnector = effect.effect_type.startsWith('connector.')
  const operation = only(definitions, 'connector_operation').find(
    (each) => nameOf(each) === effect.operation,
  )?.operation
  const template = effect.key_template ?? operation?.idempotency_key_template ?? undefined
  const parsed = template === undefined ? undefined : parseKeyTemplate(template)
  return [
    ...(isConnector && !operation
      ? [flaw('unknown_operation', `calls the operation ${quote(effect.operation)}, which has no contract`)]
      : []),
    ...(isConnector && !only(definitions, 'retry_policy').some(({ policy }) => policy.operation === effect.operation)
      ? [flaw('missing_retry_policy', `calls ${quote(effect.operation)}, for which no retry policy is registered`)]
      : []),
    ...([effect, effect.undo].some((handler) => handler?.class === 'queryable' && !handler.find)
      ? [flaw('missing_lookup', 'is queryable and cannot be looked up')]
      : []),
    ...(operation && operation.side_effect !== (effect.class !== 'read')
      ? [flaw('side_effect', 'and its operation disagree about having a side effect')]
      : []),
    ...(operation?.idempotency_required && effect.class === 'opaque'
      ? [flaw('key_unused', 'must pass a key on and its provider takes none')]
      : []),
    ...(parsed && !parsed.ok ? [flaw('key_template', parsed.reason)] : []),
  ]
}

export function findScheduleFlaws(
  definitions: readonly Definition[],
  queues: readonly string[],
): readonly CatalogFinding[] {
  return only(definitions, 'schedule').flatMap(({ spec }) => {
    const cron = parseCron(spec.cron)
    const never = cron.ok && isImpossibleDate(cron.value)
    const zone = parseTimeZone(spec.time_zone ?? 'UTC')
    const { jitter_ms: jitterMs = 0 } = spec
    return [
      ...(zone.ok ? [] : [finding(zone.code, spec.name, `${quote(spec.name)}: ${zone.reason}`)]),
      ...(Number.isInteger(jitterMs) && jitterMs >= 0 && jitterMs <= SCHEDULE_JITTER_MAX_MS
        ? []
        : [finding('schedule_jitter', spec.name, `${quote(spec.name)} has a jitter that is not from 0 to an hour`)]),
      ...(cron.ok ? [] : [finding(cron.code, spec.name, `${quote(spec.name)}: ${cron.reason}`)]),
      ...(never ? [finding('cron_never', spec.name, `${quote(spec.name)} would never fire`)] : []),
      ...(queues.includes(spec.queue)
        ? []
        : [
            finding(
              'unknown_queue',
              spec.name,
              `${quote(spec.name)} names the queue ${quote(spec.queue)}, which is not registered`,
            ),
          ]),
    ]
  })
}

/** The compensation graph as the kernel judges it: missing, too deep, in a circle, false inverses, missing capabilities. */
export function findSagaFlaws(
  effects: readonly EffectDefinition[],
  runtime: CatalogRuntime,
): readonly CatalogFinding[] {
  const judged = validateCatalog(
    {
      operations: effects.map((effect) => ({ ...manifestOf(effect), operation: effect.operation })),
      compensations: effects.flatMap(({ operation, undo }) =>
        undo
          ? [{ ...manifestOf(undo), compensation: undo.name, of: operation, counter_effects: undo.counter_effects }]
          : [],
      ),
    },
    runtime,
  )
  // The kernel lists its findings among the facts of its refusal.
  return judged.ok ? [] : ((judged.facts?.['findings'] ?? []) as CatalogFinding[])
}

function manifestOf(
  handler: Pick<EffectDefinition, 'produces' | 'inverses' | 'requires_compensation' | 'requires_capabilities'>,
) {
  const { produces, inverses, requires_compensation, requires_capabilities } = handler
  return { produces, inverses, requires_compensation, requires_capabilities }
}
