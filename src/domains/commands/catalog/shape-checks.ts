/** Whether every definition has the fields that the rest of the catalog reads: types are stripped at start, so a field can be missing all the same. Pure. */
import { accept, type Decision, quote } from '#kernel/refusal'
import { effectClasses } from './effect-definition.ts'
import { type CatalogFinding, finding, refuseFindings } from './finding.ts'

type Fields = Readonly<Record<string, unknown>>
type Kind = { readonly is: (value: unknown) => boolean; readonly words: string }
type Shape = Readonly<Record<string, Kind>>

const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null
const text: Kind = { is: (value) => typeof value === 'string', words: 'a text' }
const named: Kind = { is: (value) => typeof value === 'string' && value !== '', words: 'a name' }
const texts: Kind = {
  is: (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
  words: 'a list of names',
}
const numbers: Kind = {
  is: (value) => Array.isArray(value) && value.every((item) => typeof item === 'number'),
  words: 'a list of numbers',
}
const flag: Kind = { is: (value) => typeof value === 'boolean', words: 'true or false' }
const call: Kind = { is: (value) => typeof value === 'function', words: 'a function' }
const object: Kind = { is: (value) => isObject(value) && !Array.isArray(value), words: 'an object' }
const schema: Kind = {
  is: (value) => isObject(value) && typeof value['safeParse'] === 'function',
  words: 'a zod schema',
}
const effectClass: Kind = {
  is: (value) => effectClasses.some((known) => known === value),
  words: `one of ${effectClasses.join(', ')}`,
}
const optional = ({ is, words }: Kind): Kind => ({ is: (value) => value === undefined || is(value), words })

/** By kind: the field that names it, and every field that somebody reads without asking, by its path. */
const shapes: Readonly<Record<string, { readonly name: string; readonly fields: Shape }>> = {
  command_type: {
    name: 'name',
    fields: {
      name: named,
      version: text,
      description: text,
      payload: schema,
      side_effects: texts,
      error_classes: texts,
      cancellable_by: texts,
      audit: texts,
      fields: object,
      policies: texts,
      'approval.required': flag,
      'approval.approval_type': text,
      'approval.approver': text,
      'idempotency.required': flag,
      'idempotency.key_template': optional(text),
      compensation: object,
    },
  },
  task: {
    name: 'spec.name',
    fields: {
      'spec.name': named,
      'spec.description': text,
      'spec.command_type': named,
      'spec.function_name': named,
      'spec.ingress_types': texts,
      'spec.required_inputs': texts,
      'spec.policy_checks': texts,
      'spec.connector_requirements': texts,
      'spec.metadata': object,
    },
  },
  function: { name: 'name', fields: { name: named, plan: call, result: optional(call) } },
  effect: {
    name: 'effect_type',
    fields: {
      effect_type: named,
      operation: named,
      class: effectClass,
      do: call,
      find: optional(call),
      produces: texts,
      inverses: object,
      requires_capabilities: texts,
      key_template: optional(text),
      undo: optional(object),
    },
  },
  policy: { name: 'rule.name', fields: { 'rule.name': named, 'rule.decide': call, version: text, facts: texts } },
  connector_operation: {
    name: 'operation.operation',
    fields: { 'operation.connector': named, 'operation.operation': named, 'operation.side_effect': flag },
  },
  schedule: {
    name: 'spec.name',
    fields: { 'spec.name': named, 'spec.command_type': named, 'spec.cron': text, 'spec.queue': text },
  },
  retry_policy: {
    name: 'policy.operation',
    fields: { 'policy.operation': named, 'policy.retryable': texts, 'policy.backoff_seconds': numbers },
  },
}

const undoFields: Shape = { 'undo.name': named, 'undo.do': call, 'undo.class': effectClass, 'undo.produces': texts }

/** Everything after this may rely on its types. */
export function checkShapes<D>(definitions: readonly D[]): Decision<readonly D[]> {
  const findings = definitions.flatMap(findMissingFields)
  return findings.length > 0 ? refuseFindings(findings) : accept(definitions)
}

function findMissingFields(definition: unknown, at: number): readonly CatalogFinding[] {
  const kind = isObject(definition) ? String(definition['kind']) : typeof definition
  const shape = isObject(definition) && Object.hasOwn(shapes, kind) ? shapes[kind] : undefined
  const place = `definition ${at + 1} of the catalog`
  if (!isObject(definition) || !shape) {
    const known = Object.keys(shapes).join(', ')
    return [
      finding(
        'missing_field',
        place,
        `${place}: kind is ${quote(kind)} and must be one of ${known}; use the define functions`,
      ),
    ]
  }
  const name = valueAt(definition, shape.name)
  const subject = named.is(name) ? String(name) : place
  const fields = definition['undo'] === undefined ? shape.fields : { ...shape.fields, ...undoFields }
  return Object.entries(fields).flatMap(([path, { is, words }]) => {
    const value = valueAt(definition, path)
    if (is(value)) return []
    // Whoever writes a definition does not see the holder that the define function puts around it.
    const field = path.replace(/^(spec|policy|rule|operation)\./, '')
    const found = value === undefined || value === null ? 'is missing' : 'has the wrong type'
    const who = named.is(name) ? `${kind} ${quote(subject)}` : `${kind} (${place})`
    return [finding('missing_field', subject, `${who}: ${field} ${found}: it must be ${words}`)]
  })
}

function valueAt(definition: Fields, path: string): unknown {
  return path.split('.').reduce<unknown>((value, step) => (isObject(value) ? value[step] : undefined), definition)
}
