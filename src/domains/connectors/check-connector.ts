/** Whether a declaration is complete, fits together and holds no secret; what does not pass is not loaded. Pure. */
import { z } from 'zod'
import { dataClasses } from '#kernel/data-class'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { parseKeyTemplate } from '#kernel/idempotency-key'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import type { Connector } from './connector.ts'
import {
  authModes,
  type ConnectorDefinition,
  type ConnectorOperationContract,
  type Followup,
  sideEffectClasses,
} from './define-connector.ts'
import { parseSecretReference } from './secrets.ts'

export type ConnectorFinding = {
  readonly rule: string
  /** `billing` or `billing.get_invoice`. */
  readonly subject: string
  readonly message: string
}

export function finding(rule: string, subject: string, message: string): ConnectorFinding {
  return { rule, subject, message: `${subject}: ${message}` }
}

/** Fills the input of a follow-up (an undo, a look-up) from the recorded effect. Pure. */
export type TemplateFacts = { readonly input: JsonValue; readonly output: JsonValue; readonly key: string }

const PLACE = /\{(key|(?:input|output)(?:\.[A-Za-z0-9_-]+)*)\}/g

export function fillTemplate(template: JsonObject, facts: TemplateFacts): Decision<JsonObject> {
  const filled = fill(template, facts)
  if (!filled.ok) return filled
  // An object is filled into an object.
  return accept(filled.value as JsonObject)
}

/** The places that a template names, for the check at start-up. */
function placesOf(template: JsonValue): readonly string[] {
  if (typeof template === 'string') return [...template.matchAll(PLACE)].map(([, place = '']) => place)
  if (typeof template !== 'object' || template === null) return []
  return Object.values(template).flatMap((part: JsonValue) => placesOf(part))
}

function fill(template: JsonValue, facts: TemplateFacts): Decision<JsonValue> {
  if (typeof template === 'string') return fillText(template, facts)
  if (typeof template !== 'object' || template === null) return accept(template)
  if (Array.isArray(template)) {
    const items: JsonValue[] = []
    for (const part of template as readonly JsonValue[]) {
      const item = fill(part, facts)
      if (!item.ok) return item
      items.push(item.value)
    }
    return accept(items)
  }
  const object: Record<string, JsonValue> = {}
  for (const [name, part] of Object.entries(template as JsonObject)) {
    const item = fill(part, facts)
    if (!item.ok) return item
    object[name] = item.value
  }
  return accept(object)
}

function fillText(text: string, facts: TemplateFacts): Decision<JsonValue> {
  const [only] = text.matchAll(PLACE)
  if (only && only[0] === text) {
    const value = valueAt(facts, only[1] ?? '')
    return value === undefined ? unfilled(only[1] ?? '') : accept(value)
  }
  let missing: string | undefined
  const filled = text.replace(PLACE, (_whole, place: string) => {
    const value = valueAt(facts, place)
    const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    if (!isPlain) missing ??= place
    return isPlain ? String(value) : ''
  })
  return missing === undefined ? accept(filled) : unfilled(missing)
}

/** `input.items.0.id` looks into objects and lists. */
function valueAt(facts: TemplateFacts, place: string): JsonValue | undefined {
  const [root = '', ...names] = place.split('.')
  if (root === 'key') return facts.key
  return valueIn(root === 'input' ? facts.input : facts.output, names)
}

export function valueIn(value: JsonValue, names: readonly string[]): JsonValue | undefined {
  let at: JsonValue | undefined = value
  for (const name of names) {
    if (at === undefined || at === null) return undefined
    if (Array.isArray(at)) at = /^\d{1,6}$/.test(name) ? (at as readonly JsonValue[])[Number(name)] : undefined
    else at = isJsonObject(at) && Object.hasOwn(at, name) ? at[name] : undefined
  }
  return at
}

function unfilled(place: string): Refusal {
  return refuse('connectors.template.unfilled', `nothing is known for ${quote(`{${place}}`)}`, { path: place })
}

/** Whether the declaration of one operation fits together. Pure. */
const NAME = /^[a-z][a-z0-9_]{0,62}$/
export const TIMEOUT_MAX_MS = 600_000
/** A result is stored on its effect, whose limit this is. */
const OUTPUT_MAX_BYTES = 1_048_576

function isConnectorName(text: string): boolean {
  return NAME.test(text)
}

function checkOperation(
  definition: ConnectorDefinition,
  operation: ConnectorOperationContract,
): readonly ConnectorFinding[] {
  const subject = `${definition.name}.${operation.name}`
  const findings: ConnectorFinding[] = []
  const flaw = (rule: string, message: string) => void findings.push(finding(rule, subject, message))

  if (!NAME.test(operation.name)) flaw('name', 'its name is not lower-case letters, digits and _')
  if (operation.description.trim() === '') flaw('description', 'it does not say what it does')
  if (!isWithin(operation.timeout_ms, TIMEOUT_MAX_MS)) flaw('timeout', 'timeout_ms is not between 1 and 600000')
  if (!isWithin(operation.output_max_bytes, OUTPUT_MAX_BYTES))
    flaw('size', 'output_max_bytes is not between 1 and 1048576')
  if (!isWithin(operation.attempts_max, 100)) flaw('attempts', 'attempts_max is not between 1 and 100')
  checkShapes(operation, flaw)
  checkKey(operation, flaw)
  checkFollowups(definition, operation, flaw)
  checkScopes(definition, operation, flaw)
  checkClasses(definition, operation, flaw)
  return findings
}

type Flaw = (rule: string, message: string) => void

function isWithin(value: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= 1 && value <= max
}

/** An input that takes fields nobody declared would carry data that nobody classed. */
function checkShapes({ input, output }: ConnectorOperationContract, flaw: Flaw): void {
  const shape = schemaOf(input)
  if (shape === undefined) flaw('input_schema', 'its input schema is no schema')
  else if (shape['type'] !== 'object') flaw('input_schema', 'its input is not an object')
  else if (shape['additionalProperties'] !== false) flaw('input_schema', 'its input takes fields that are not declared')
  if (schemaOf(output) === undefined) flaw('output_schema', 'its output schema is no schema')
}

function schemaOf(schema: z.ZodType): Readonly<Record<string, unknown>> | undefined {
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  } catch {
    return undefined
  }
}

function checkKey({ side_effect_class: kind, idempotency, input }: ConnectorOperationContract, flaw: Flaw): void {
  if (kind === 'keyed' && !idempotency.required) flaw('key', 'is keyed and does not require a key')
  if (kind === 'opaque' && idempotency.required) flaw('key', 'requires a key that its provider does not take')
  if (idempotency.key_template === null) return
  const parsed = parseKeyTemplate(idempotency.key_template)
  if (!parsed.ok) return flaw('key_template', parsed.reason)
  const fields = Object.keys((schemaOf(input)?.['properties'] as object | undefined) ?? {})
  for (const part of parsed.value.parts) {
    const [name = ''] = typeof part === 'string' ? [] : part.field.split('.')
    if (typeof part !== 'string' && !fields.includes(name))
      flaw('key_template', `its key names ${part.field}, which its input does not have`)
  }
}

function checkFollowups(
  { operations }: ConnectorDefinition,
  { side_effect_class: kind, compensation, read_back }: ConnectorOperationContract,
  flaw: Flaw,
): void {
  const other = (followup: Followup, rule: string, mayName: readonly string[]) => {
    const named = operations.find(({ name }) => name === followup.operation)
    if (!named) flaw(rule, `names ${followup.operation}, which is none of its operations`)
    const strange = placesOf(followup.input).filter((place) => !mayName.includes(place.split('.')[0] ?? ''))
    for (const place of strange) flaw(rule, `its input names {${place}}, which is not known then`)
    return named
  }
  if (kind === 'queryable' && !read_back) flaw('read_back', 'is queryable and says no read_back')
  // Asked when no answer came: there is no output yet.
  const asked = read_back && other(read_back, 'read_back', ['input', 'key'])
  if (asked && asked.side_effect_class !== 'none')
    flaw('read_back', 'is read back by an operation that changes something')
  if (compensation && kind === 'none') flaw('compensation', 'changes nothing and says how to undo it')
  const undone = compensation && other(compensation, 'compensation', ['input', 'output', 'key'])
  if (undone && undone.side_effect_class === 'none')
    flaw('compensation', 'is undone by an operation that changes nothing')
}

function checkScopes(definition: ConnectorDefinition, operation: ConnectorOperationContract, flaw: Flaw): void {
  const { read_scopes, write_scopes } = definition
  for (const scope of operation.scopes) {
    if (!read_scopes.includes(scope) && !write_scopes.includes(scope))
      flaw('scope', `needs the scope ${scope}, which its connector does not have`)
    else if (operation.side_effect_class === 'none' && !read_scopes.includes(scope))
      flaw('scope', `changes nothing and needs the write scope ${scope}`)
  }
}

function checkClasses(definition: ConnectorDefinition, operation: ConnectorOperationContract, flaw: Flaw): void {
  const max = dataClasses.indexOf(definition.data_class_max)
  for (const [field, dataClass] of Object.entries(operation.input_classes)) {
    // A secret travels as a reference, so its class says nothing about what is sent.
    if (dataClass !== 'secret' && dataClasses.indexOf(dataClass) > max)
      flaw(
        'data_class',
        `takes ${dataClass} data in ${field}; its connector carries ${definition.data_class_max} at most`,
      )
  }
}

export function checkConnector(definition: ConnectorDefinition): readonly ConnectorFinding[] {
  const { name, auth, rate_limits, breaker, operations } = definition
  const findings: ConnectorFinding[] = []
  const flaw = (rule: string, message: string) => void findings.push(finding(rule, name, message))

  if (!isConnectorName(name)) flaw('name', 'its name is not lower-case letters, digits and _')
  if (definition.connector_id.trim() === '') flaw('connector_id', 'it has no connector_id')
  if (definition.connector_type.trim() === '') flaw('connector_type', 'it has no connector_type')
  if (definition.description.trim() === '') flaw('description', 'it does not say what it is')
  if (operations.length === 0) flaw('operations', 'it has no operation')
  const names = operations.map((operation) => operation.name)
  for (const twice of names.filter((each, at) => names.indexOf(each) !== at))
    flaw('operations', `it has ${twice} twice`)
  for (const { name: each, side_effect_class: kind } of operations)
    if (!sideEffectClasses.includes(kind)) flaw('side_effect_class', `${each} has no side-effect class`)

  if (!authModes.includes(auth.mode)) flaw('auth', 'its auth mode is none that is known')
  if (auth.mode !== 'none' && auth.secret_ref === null) flaw('auth', `its auth mode ${auth.mode} needs a secret_ref`)
  if (auth.mode === 'none' && auth.secret_ref !== null) flaw('auth', 'it names a secret and no auth mode')
  for (const reference of [...(auth.secret_ref === null ? [] : [auth.secret_ref]), ...definition.secret_refs])
    if (!parseSecretReference(reference).ok)
      flaw('secret_in_manifest', 'a secret_ref is not a reference; the value is not shown')

  for (const [limit, value] of Object.entries(rate_limits))
    if (value !== null && !isCount(value)) flaw('rate_limits', `${limit} is no count from 1 on`)
  if (!isCount(breaker.failures) || !isCount(breaker.open_ms))
    flaw('breaker', 'failures and open_ms are counts from 1 on')

  for (const each of definition.flaws) flaw('settings', each)
  const declared = { description: definition.description, settings: definition.settings }
  for (const path of secretPaths(declared, [])) flaw('secret_in_manifest', `${path} holds a secret; write a reference`)
  return [...findings, ...operations.flatMap((operation) => checkOperation(definition, operation))]
}

/** The connector itself must be the one that was declared. */
export function checkOpened(definition: ConnectorDefinition, connector: Connector): readonly ConnectorFinding[] {
  const can = [...connector.capabilities()].toSorted().join(', ')
  const says = definition.operations
    .map(({ name }) => name)
    .toSorted()
    .join(', ')
  return [
    ...(connector.name === definition.name
      ? []
      : [finding('name', definition.name, `it calls itself ${connector.name}`)]),
    ...(connector.connector_type === definition.connector_type
      ? []
      : [finding('connector_type', definition.name, `it says that it is of the type ${connector.connector_type}`)]),
    ...(can === says ? [] : [finding('capabilities', definition.name, `it can do (${can}) and declares (${says})`)]),
  ]
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}

/** Of settings and of headers. */
const SECRET_NAME =
  /(^|_|-)(password|passwd|passphrase|secret|token|(api|auth|access|secret|private)[_-]?key|credentials?|authorization|cookie)$/i

/** Paths only; what stands there is never told. */
function secretPaths(value: JsonValue, path: readonly string[]): readonly string[] {
  if (typeof value === 'string') {
    const isNamed = SECRET_NAME.test(path.at(-1) ?? '') && value !== '' && !parseSecretReference(value).ok
    return isNamed || hasSecretShape(value) ? [path.join('.')] : []
  }
  if (Array.isArray(value))
    return (value as readonly JsonValue[]).flatMap((part, at) => secretPaths(part, [...path, String(at)]))
  if (value === null || !isJsonObject(value)) return []
  return Object.entries(value).flatMap(([name, part]) => secretPaths(part, [...path, name]))
}
