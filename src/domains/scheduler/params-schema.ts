/**
 * Typed parameters of a template: a closed part of JSON Schema, stored as data. What this file does not know is refused when
 * the template is made, so no rule is ever passed over silently; zod does the checking of values.
 */
import { z } from 'zod'
import { formatPath, isJsonObject, type JsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { utf8Size } from '#kernel/utf8-size'

const BYTES_MAX = 65_536
const DEPTH_MAX = 8
const NODES_MAX = 500

const everywhere = ['type', 'title', 'description', 'default']
const numeric = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']
const keywordsOf: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength'],
  number: numeric,
  integer: numeric,
  boolean: [],
  null: [],
  array: ['items', 'minItems', 'maxItems'],
  object: ['properties', 'required', 'additionalProperties'],
}
const typeNames = Object.keys(keywordsOf)

/** Refuses keywords outside the list, rules that would have no effect, and schemas that are too large to be meant. */
export function checkParamsSchema(schema: JsonObject): Decision<JsonObject> {
  if (utf8Size(JSON.stringify(schema)) > BYTES_MAX) return tooLarge(`${BYTES_MAX} bytes`)
  if (schema['type'] !== 'object') return wrong(['type'], 'the schema of params has the type "object"')
  let nodes = 0
  const visit = (node: JsonValue | undefined, at: readonly JsonStep[]): Refusal | undefined => {
    nodes += 1
    if (nodes > NODES_MAX) return tooLarge(`${NODES_MAX} parts`)
    if (at.length > DEPTH_MAX * 2) return tooLarge(`${DEPTH_MAX} levels`)
    if (node === undefined || !isJsonObject(node)) return wrong(at, 'a schema is an object')
    if ('enum' in node || 'const' in node) return visitChoice(node, at)
    const type = node['type']
    if (typeof type !== 'string' || !typeNames.includes(type))
      return wrong([...at, 'type'], `the type is one of ${typeNames.join(', ')}`)
    return visitRules(node, type, at) ?? visitChildren(node, at, visit)
  }
  return visit(schema, []) ?? accept(schema)
}

/** `enum` and `const` say everything about a value; a second rule beside them would not be looked at. */
function visitChoice(node: JsonObject, at: readonly JsonStep[]): Refusal | undefined {
  const unknown = unknownKeyword(node, [...everywhere.filter((word) => word !== 'type'), 'enum', 'const'], at)
  if (unknown) return unknown
  const values = 'const' in node ? [node['const']] : node['enum']
  const isList = Array.isArray(values) && values.length > 0
  return isList && values.every((value) => value === null || typeof value !== 'object')
    ? undefined
    : wrong(at, '`enum` is a list of texts, numbers, booleans or null, and `const` is one of these')
}

function visitRules(node: JsonObject, type: string, at: readonly JsonStep[]): Refusal | undefined {
  const unknown = unknownKeyword(node, [...everywhere, ...(keywordsOf[type] ?? [])], at)
  if (unknown) return unknown
  for (const word of [...numeric, 'minLength', 'maxLength', 'minItems', 'maxItems']) {
    const value = node[word]
    const isCount = word.endsWith('Length') || word.endsWith('Items')
    const isFine = typeof value === 'number' && (!isCount || (Number.isInteger(value) && value >= 0))
    if (value !== undefined && !isFine)
      return wrong([...at, word], isCount ? 'is a whole number from 0' : 'is a number')
  }
  if (node['multipleOf'] !== undefined && Number(node['multipleOf']) <= 0)
    return wrong([...at, 'multipleOf'], 'is above 0')
  const additional = node['additionalProperties']
  if (additional !== undefined && typeof additional !== 'boolean')
    return wrong([...at, 'additionalProperties'], 'is true or false')
  const properties = node['properties'] ?? {}
  const required = node['required'] ?? []
  const names = Array.isArray(required) ? required : [null]
  const isNamed = (name: JsonValue) =>
    typeof name === 'string' && isJsonObject(properties) && Object.hasOwn(properties, name)
  return names.every(isNamed) ? undefined : wrong([...at, 'required'], 'lists names that stand in `properties`')
}

function visitChildren(
  node: JsonObject,
  at: readonly JsonStep[],
  visit: (node: JsonValue | undefined, at: readonly JsonStep[]) => Refusal | undefined,
): Refusal | undefined {
  if (node['items'] !== undefined) return visit(node['items'], [...at, 'items'])
  const { properties } = node
  if (properties === undefined) return undefined
  if (!isJsonObject(properties)) return wrong([...at, 'properties'], 'is an object of schemas')
  for (const [name, child] of Object.entries(properties)) {
    const refusal = visit(child, [...at, 'properties', name])
    if (refusal) return refusal
  }
  return undefined
}

/** Checks params and fills in the defaults. The schema was checked when it was stored. */
export function applyParamsSchema(schema: JsonObject, params: JsonObject): Decision<JsonObject> {
  // Inside the part of JSON Schema that `checkParamsSchema` lets through, zod and JSON Schema mean the same.
  const result = z.fromJSONSchema(schema).safeParse(params)
  if (result.success) return accept(result.data as JsonObject)
  const [issue] = result.error.issues
  const path = formatPath([
    'params',
    ...(issue?.path ?? []).map((step) => (typeof step === 'number' ? step : String(step))),
  ])
  const reason = issue?.code === 'unrecognized_keys' ? `unknown ${issue.keys.map(quote).join(', ')}` : issue?.message
  return refuse('scheduler.params.invalid', `the params do not fit the template: ${reason}`, { path })
}

function unknownKeyword(node: JsonObject, known: readonly string[], at: readonly JsonStep[]): Refusal | undefined {
  const word = Object.keys(node).find((key) => !known.includes(key))
  if (word === undefined) return undefined
  return refuse('scheduler.schema.keyword', `the keyword ${quote(word)} is not supported here`, {
    path: formatPath(['params_schema', ...at, word.slice(0, 64)]),
    ...didYouMean(word, known),
    facts: { supported: known },
  })
}

function wrong(at: readonly JsonStep[], rule: string): Refusal {
  return refuse('scheduler.schema.keyword', `the schema breaks a rule: ${rule}`, {
    path: formatPath(['params_schema', ...at]),
  })
}

function tooLarge(limit: string): Refusal {
  return refuse('schema_limits', `the schema has more than ${limit}`, { path: 'params_schema' })
}
