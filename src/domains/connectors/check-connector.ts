/** Checks that a declaration is complete and consistent and contains no secret. A connector that fails is not loaded. Pure. */
import { z } from 'zod'
import { dataClasses } from '#kernel/data-class'
import { isJsonObject, type JsonValue } from '#kernel/json-value'
import { parseKeyTemplate } from '#kernel/idempotency-key'
import { hasSecretShape } from '#kernel/secret-shapes'
import { isSecretName } from '#kernel/secrets/secret-name'
import {
  authModes,
  type Connector,
  type ConnectorDefinition,
  type ConnectorOperationContract,
  type Followup,
  sideEffectClasses,
} from './connector.ts'
import { parseSecretReference } from './secrets.ts'
import { placesOf } from './template.ts'

export type ConnectorFinding = {
  readonly rule: string
  /** `billing` or `billing.get_invoice`. */
  readonly subject: string
  readonly message: string
}

function finding(rule: string, subject: string, message: string): ConnectorFinding {
  return { rule, subject, message: `${subject}: ${message}` }
}

const NAME = /^[a-z][a-z0-9_]{0,62}$/
export const TIMEOUT_MAX_MS = 600_000
/** The limit of an effect, where the result is stored. */
const OUTPUT_MAX_BYTES = 1_048_576

function checkOperation(
  definition: ConnectorDefinition,
  operation: ConnectorOperationContract,
): readonly ConnectorFinding[] {
  const subject = `${definition.name}.${operation.name}`
  const findings: ConnectorFinding[] = []
  const flaw = (rule: string, message: string) => void findings.push(finding(rule, subject, message))

  if (!NAME.test(operation.name)) flaw('name', 'The name must consist of lower-case letters, digits and _.')
  if (operation.description.trim() === '') flaw('description', 'The description is empty.')
  if (!isWithin(operation.timeout_ms, TIMEOUT_MAX_MS)) flaw('timeout', 'timeout_ms must be between 1 and 600000.')
  if (!isWithin(operation.output_max_bytes, OUTPUT_MAX_BYTES))
    flaw('size', 'output_max_bytes must be between 1 and 1048576.')
  if (!isWithin(operation.attempts_max, 100)) flaw('attempts', 'attempts_max must be between 1 and 100.')
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

/** An input that accepts undeclared fields would carry unclassified data. */
function checkShapes({ input, output }: ConnectorOperationContract, flaw: Flaw): void {
  const shape = schemaOf(input)
  if (shape === undefined) flaw('input_schema', 'The input schema is not valid.')
  else if (shape['type'] !== 'object') flaw('input_schema', 'The input must be an object.')
  else if (!isClosed(shape)) flaw('input_schema', 'The input must not accept undeclared fields.')
  if (schemaOf(output) === undefined) flaw('output_schema', 'The output schema is not valid.')
}

/** A schema of parts cannot name all fields in one place. */
function isClosed({ additionalProperties, unevaluatedProperties }: Readonly<Record<string, unknown>>): boolean {
  return additionalProperties === false || (additionalProperties === undefined && unevaluatedProperties === false)
}

function schemaOf(schema: z.ZodType): Readonly<Record<string, unknown>> | undefined {
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  } catch {
    return undefined
  }
}

function checkKey({ side_effect_class: kind, idempotency, input }: ConnectorOperationContract, flaw: Flaw): void {
  if (kind === 'keyed' && !idempotency.required) flaw('key', 'A keyed operation must require a key.')
  if (kind === 'opaque' && idempotency.required)
    flaw('key', 'An opaque operation cannot require a key: its provider takes none.')
  if (idempotency.key_template === null) return
  const parsed = parseKeyTemplate(idempotency.key_template)
  if (!parsed.ok) return flaw('key_template', parsed.reason)
  const fields = Object.keys((schemaOf(input)?.['properties'] as object | undefined) ?? {})
  for (const part of parsed.value.parts) {
    const [name = ''] = typeof part === 'string' ? [] : part.field.split('.')
    if (typeof part !== 'string' && !fields.includes(name))
      flaw('key_template', `The key template names ${part.field}, which is not an input field.`)
  }
}

function checkFollowups(
  { operations }: ConnectorDefinition,
  { side_effect_class: kind, compensation, read_back }: ConnectorOperationContract,
  flaw: Flaw,
): void {
  const other = (followup: Followup, rule: string, mayName: readonly string[]) => {
    const named = operations.find(({ name }) => name === followup.operation)
    if (!named) flaw(rule, `It names ${followup.operation}, which is not an operation of the connector.`)
    const strange = placesOf(followup.input).filter((place) => !mayName.includes(place.split('.')[0] ?? ''))
    for (const place of strange) flaw(rule, `Its input names {${place}}, which has no value at that time.`)
    return named
  }
  if (kind === 'queryable' && !read_back) flaw('read_back', 'A queryable operation must declare read_back.')
  // It runs when no answer came: there is no output yet.
  const asked = read_back && other(read_back, 'read_back', ['input', 'key'])
  if (asked && asked.side_effect_class !== 'none') flaw('read_back', 'The read_back operation must change nothing.')
  if (compensation && kind === 'none') flaw('compensation', 'An operation that changes nothing needs no compensation.')
  const undone = compensation && other(compensation, 'compensation', ['input', 'output', 'key'])
  if (undone && undone.side_effect_class === 'none')
    flaw('compensation', 'The compensation must be an operation that changes something.')
}

function checkScopes(definition: ConnectorDefinition, operation: ConnectorOperationContract, flaw: Flaw): void {
  const { read_scopes, write_scopes } = definition
  for (const scope of operation.scopes) {
    if (!read_scopes.includes(scope) && !write_scopes.includes(scope))
      flaw('scope', `It needs the scope ${scope}, which the connector does not have.`)
    else if (operation.side_effect_class === 'none' && !read_scopes.includes(scope))
      flaw('scope', `It changes nothing but needs the write scope ${scope}.`)
  }
}

function checkClasses(definition: ConnectorDefinition, operation: ConnectorOperationContract, flaw: Flaw): void {
  const max = dataClasses.indexOf(definition.data_class_max)
  for (const [field, dataClass] of Object.entries(operation.input_classes)) {
    // A secret is sent as a reference, so its class does not describe the data.
    if (dataClass !== 'secret' && dataClasses.indexOf(dataClass) > max)
      flaw(
        'data_class',
        `It takes ${dataClass} data in ${field}; the connector carries at most ${definition.data_class_max}.`,
      )
  }
}

/** Checks each declaration, and that names and ids are unique. */
export function checkConnectors(definitions: readonly ConnectorDefinition[]): readonly ConnectorFinding[] {
  const twice = (['name', 'connector_id'] as const).flatMap((field) => {
    const all = definitions.map((definition) => definition[field])
    const repeated = all.filter((each, at) => all.indexOf(each) !== at)
    return repeated.map((each) => finding('duplicate', each, `Two connectors have this ${field}.`))
  })
  return [...definitions.flatMap(checkConnector), ...twice]
}

export function checkConnector(definition: ConnectorDefinition): readonly ConnectorFinding[] {
  const { name, auth, rate_limits, breaker, operations } = definition
  const findings: ConnectorFinding[] = []
  const flaw = (rule: string, message: string) => void findings.push(finding(rule, name, message))

  if (!NAME.test(name)) flaw('name', 'The name must consist of lower-case letters, digits and _.')
  if (definition.connector_id.trim() === '') flaw('connector_id', 'The connector_id is empty.')
  if (definition.connector_type.trim() === '') flaw('connector_type', 'The connector_type is empty.')
  if (definition.description.trim() === '') flaw('description', 'The description is empty.')
  if (operations.length === 0) flaw('operations', 'It has no operation.')
  const names = operations.map((operation) => operation.name)
  for (const twice of names.filter((each, at) => names.indexOf(each) !== at))
    flaw('operations', `It declares ${twice} twice.`)
  for (const { name: each, side_effect_class: kind } of operations)
    if (!sideEffectClasses.includes(kind)) flaw('side_effect_class', `The operation ${each} has no side-effect class.`)

  if (!authModes.includes(auth.mode)) flaw('auth', 'The auth mode is not known.')
  if (auth.mode !== 'none' && auth.secret_ref === null) flaw('auth', `The auth mode ${auth.mode} needs a secret_ref.`)
  if (auth.mode === 'none' && auth.secret_ref !== null) flaw('auth', 'It has a secret_ref but no auth mode.')
  for (const reference of [...(auth.secret_ref === null ? [] : [auth.secret_ref]), ...definition.secret_refs])
    if (!parseSecretReference(reference).ok)
      flaw('secret_in_manifest', 'A secret_ref is not a reference; its value is not shown.')

  for (const [limit, value] of Object.entries(rate_limits))
    if (value !== null && !isCount(value)) flaw('rate_limits', `${limit} must be a whole number of at least 1.`)
  if (!isCount(breaker.failures) || !isCount(breaker.open_ms))
    flaw('breaker', 'failures and open_ms must be whole numbers of at least 1.')

  for (const each of definition.flaws) flaw('settings', each)
  const declared = { description: definition.description, settings: definition.settings }
  for (const path of secretPaths(declared, []))
    flaw('secret_in_manifest', `${path} contains a secret; write a reference instead.`)
  return [...findings, ...operations.flatMap((operation) => checkOperation(definition, operation))]
}

/** Checks that the opened connector is the declared one. */
export function checkOpened(definition: ConnectorDefinition, connector: Connector): readonly ConnectorFinding[] {
  const can = [...connector.capabilities()].toSorted().join(', ')
  const says = definition.operations
    .map(({ name }) => name)
    .toSorted()
    .join(', ')
  return [
    ...(connector.name === definition.name
      ? []
      : [finding('name', definition.name, `The opened connector has the name ${connector.name}.`)]),
    ...(connector.connector_type === definition.connector_type
      ? []
      : [finding('connector_type', definition.name, `It has the type ${connector.connector_type}.`)]),
    ...(can === says ? [] : [finding('capabilities', definition.name, `It supports (${can}) but declares (${says}).`)]),
  ]
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}

/** Returns paths only, never a value. */
function secretPaths(value: JsonValue, path: readonly string[]): readonly string[] {
  if (typeof value === 'string') {
    const isNamed = isSecretName(path.at(-1) ?? '') && value !== '' && !parseSecretReference(value).ok
    return isNamed || hasSecretShape(value) ? [path.join('.')] : []
  }
  if (Array.isArray(value))
    return (value as readonly JsonValue[]).flatMap((part, at) => secretPaths(part, [...path, String(at)]))
  if (value === null || !isJsonObject(value)) return []
  return Object.entries(value).flatMap(([name, part]) => secretPaths(part, [...path, name]))
}
