/** Findings about a catalog, and the check that every definition has its fields: types are stripped at start, so a field can be missing. Pure. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { riskLevels } from '#kernel/policy/policy'
import { failureModes } from './definitions.ts'
import { effectClasses } from './effect-definition.ts'
import { placeOf } from './place.ts'

/** One error in a catalog. All of them are reported together, and the service does not start. */
export type CatalogFinding = {
  readonly rule: string
  /** The name of the definition. */
  readonly subject: string
  readonly message: string
  /** Where the project makes the definition: the file and the line. */
  readonly place?: string
}

/** One line for each finding. */
export function refuseFindings(findings: readonly CatalogFinding[]): Decision<never> {
  const count = findings.length === 1 ? 'one error' : `${findings.length} errors`
  const lines = findings.map(({ message, place }) => `${place === undefined ? '' : `${place}: `}${message}`)
  return refuse('commands.catalog.invalid', `The catalog has ${count}:\n${lines.join('\n')}`, { facts: { findings } })
}

/** The place of a definition, if it is known. */
export function atPlace(definition: object | undefined): Pick<CatalogFinding, 'place'> {
  const place = definition && placeOf(definition)
  return place === undefined ? {} : { place }
}

type Fields = Readonly<Record<string, unknown>>

/** A kind of value; `whole` is the object that holds it. */
export type FieldKind = { readonly is: (value: unknown, whole: Fields) => boolean; readonly words: string }
export type FieldKinds = Readonly<Record<string, FieldKind>>

export const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null
export const isName = (value: unknown): value is string => typeof value === 'string' && value.trim() !== ''

const text: FieldKind = { is: (value) => typeof value === 'string', words: 'a text' }
const name: FieldKind = { is: isName, words: 'a name' }
const listOf = (type: 'string' | 'number', words: string): FieldKind => ({
  is: (value) => Array.isArray(value) && value.every((item) => typeof item === type),
  words,
})
const texts = listOf('string', 'a list of names')
const numbers = listOf('number', 'a list of numbers')
export const flag: FieldKind = { is: (value) => typeof value === 'boolean', words: 'true or false' }
const call: FieldKind = { is: (value) => typeof value === 'function', words: 'a function' }
const object: FieldKind = { is: (value) => isObject(value) && !Array.isArray(value), words: 'an object' }
const schema: FieldKind = {
  is: (value) => isObject(value) && typeof value['safeParse'] === 'function',
  words: 'a zod schema',
}
export const oneOf = (values: readonly unknown[]): FieldKind => ({
  is: (value) => values.includes(value),
  words: `one of ${values.join(', ')}`,
})
const effectClass = oneOf(effectClasses)
const optional = ({ is, words }: FieldKind): FieldKind => ({
  is: (value, whole) => value === undefined || is(value, whole),
  words,
})

const each = (kind: FieldKind, ...paths: string[]): FieldKinds => Object.fromEntries(paths.map((path) => [path, kind]))

/** By kind: the field with the name, and the paths of all fields that Concord reads without a check. */
const shapes: Readonly<Record<string, { readonly name: string; readonly fields: FieldKinds }>> = {
  command_type: {
    name: 'name',
    fields: {
      name,
      payload: schema,
      ...each(text, 'version', 'description', 'approval.approval_type', 'approval.approver'),
      ...each(texts, 'side_effects', 'error_classes', 'cancellable_by', 'audit', 'policies'),
      ...each(object, 'fields', 'compensation'),
      ...each(flag, 'approval.required', 'idempotency.required'),
      'idempotency.key_template': optional(text),
      on_failure: oneOf(failureModes),
    },
  },
  task: {
    name: 'spec.name',
    fields: {
      ...each(name, 'spec.name', 'spec.command_type', 'spec.function_name'),
      'spec.description': text,
      ...each(texts, 'spec.ingress_types', 'spec.required_inputs', 'spec.policy_checks', 'spec.connector_requirements'),
      'spec.metadata': object,
    },
  },
  function: { name: 'name', fields: { name, plan: call, result: optional(call) } },
  effect: {
    name: 'effect_type',
    fields: {
      ...each(name, 'effect_type', 'operation'),
      class: effectClass,
      risk_level: oneOf(riskLevels),
      do: call,
      find: optional(call),
      ...each(texts, 'produces', 'requires_capabilities'),
      inverses: object,
      key_template: optional(text),
      undo: optional(object),
    },
  },
  policy: { name: 'rule.name', fields: { 'rule.name': name, 'rule.decide': call, version: text, facts: texts } },
  fact: { name: 'name', fields: { name, load: call } },
  connector_operation: {
    name: 'operation.operation',
    fields: { ...each(name, 'operation.connector', 'operation.operation'), 'operation.side_effect': flag },
  },
  schedule: {
    name: 'spec.name',
    fields: { ...each(name, 'spec.name', 'spec.command_type'), ...each(text, 'spec.cron', 'spec.queue') },
  },
  retry_policy: {
    name: 'policy.operation',
    fields: { 'policy.operation': name, 'policy.retryable': texts, 'policy.backoff_seconds': numbers },
  },
}

const undoFields: FieldKinds = { 'undo.name': name, 'undo.do': call, 'undo.class': effectClass, 'undo.produces': texts }

/** Checks the shape of every definition. Later checks may rely on the types. */
export function checkShapes<D>(definitions: readonly D[]): Decision<readonly D[]> {
  const findings = definitions.flatMap(findMissingFields)
  return findings.length > 0 ? refuseFindings(findings) : accept(definitions)
}

function findMissingFields(definition: unknown, at: number): readonly CatalogFinding[] {
  const kind = isObject(definition) ? String(definition['kind']) : typeof definition
  const shape = Object.hasOwn(shapes, kind) ? shapes[kind] : undefined
  const rule = 'missing_field'
  const position = `definition ${at + 1} of the catalog`
  if (!isObject(definition) || !shape) {
    const known = Object.keys(shapes).join(', ')
    const message = `${position}: kind is ${quote(kind)} and must be one of ${known}; use the define functions`
    return [{ rule, subject: position, message }]
  }
  const named = valueAt(definition, shape.name)
  const [subject, shown] = isName(named) ? [named, `${kind} ${quote(named)}`] : [position, `${kind} (${position})`]
  const fields = definition['undo'] === undefined ? shape.fields : { ...shape.fields, ...undoFields }
  return findWrongValues(fields, definition).map(({ path, isMissing, words }) => {
    // The define functions wrap some definitions; the author knows the fields without the wrapper.
    const field = path.replace(/^(spec|policy|rule|operation)\./, '')
    const found = isMissing ? 'is missing' : 'has the wrong type'
    return { rule, subject, message: `${shown}: ${field} ${found}: it must be ${words}`, ...atPlace(definition) }
  })
}

type WrongValue = { readonly path: string; readonly isMissing: boolean; readonly words: string }

/** The fields of the shape that are missing or of another kind. Anything but an object has no fields. */
export function findWrongValues(shape: FieldKinds, given: unknown): readonly WrongValue[] {
  const whole = isObject(given) ? given : {}
  return Object.entries(shape).flatMap(([path, { is, words }]) => {
    const value = valueAt(whole, path)
    return is(value, whole) ? [] : [{ path, isMissing: value === undefined || value === null, words }]
  })
}

function valueAt(whole: Fields, path: string): unknown {
  return path.split('.').reduce<unknown>((value, step) => (isObject(value) ? value[step] : undefined), whole)
}
