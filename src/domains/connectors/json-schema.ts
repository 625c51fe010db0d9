/**
 * Judges values by JSON Schemas that others wrote: the tools of MCP servers, and connectors declared in files. The result is a zod type
 * like that of a contract in code.
 *
 * A schema can be made to take forever: a regular expression that backtracks, references that branch, unique items of a long list. So
 * reading a schema and judging a value both have a time limit. A reference to another document is refused; nothing is fetched.
 */
import { createContext, Script } from 'node:vm'
import { Ajv, type Options, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { z } from 'zod'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'

/** The largest schemas of real servers take 20 ms to read, and a value takes microseconds. */
const TIME_LIMIT_MS = 500

const options: Options = {
  // Foreign schemas have keywords of their own, and are loose about types.
  strict: false,
  logger: false,
  useDefaults: true,
}

/** The types by the text of their schema: an approved definition is read for every call. */
const kept = new Map<string, z.ZodType>()
const KEPT_MAX = 500

/** Throws if it is not a schema. `schema` is shown to people as it is. */
export function typeOfSchema(schema: JsonValue | undefined): z.ZodType {
  if (schema === undefined || schema === null || !isJsonObject(schema)) throw new TypeError('It is not an object.')
  const text = JSON.stringify(schema)
  const known = kept.get(text)
  if (known) return known
  const type = makeType(schema)
  if (kept.size >= KEPT_MAX) kept.clear()
  kept.set(text, type)
  return type
}

function makeType(schema: JsonObject): z.ZodType {
  const { $schema, ...plain } = schema
  const dialect = typeof $schema === 'string' && /draft-0[467]/.test($schema) ? 'old' : 'new'
  const checker = checkerOf(dialect)
  const judge = withinTime(() => compile(plain, dialect, checker))
  // Zod gives `id` a meaning of its own.
  const { id: _id, ...shown } = schema
  return z
    .unknown()
    .transform((value, context) => {
      const copy = structuredClone(value)
      const problem = findProblem(judge, copy)
      if (problem) context.addIssue({ code: 'custom', ...problem, params: { keyword: problem.message }, input: value })
      return copy
    })
    .meta(shown)
}

/** The dialects: most servers write the newest one, or draft 7. */
const dialects = { new: Ajv2020, old: Ajv } as const
type Dialect = keyof typeof dialects

/** Knows what a schema is. Making one takes 100 ms, and it keeps nothing of the schemas that it checks. */
const checkers: Partial<Record<Dialect, Ajv | Ajv2020>> = {}

function checkerOf(dialect: Dialect): Ajv | Ajv2020 {
  const known = checkers[dialect] ?? new dialects[dialect](options)
  if (!checkers[dialect]) void known.validateSchema({})
  checkers[dialect] = known
  return known
}

/** Each schema has a judge of its own: the names in one cannot reach another. */
function compile(schema: JsonObject, dialect: Dialect, checker: Ajv | Ajv2020): ValidateFunction {
  if (checker.validateSchema(schema) !== true) throw new TypeError(`It is not a JSON Schema: ${checker.errorsText()}`)
  const ajv = new dialects[dialect]({ ...options, meta: false, validateSchema: false })
  addFormats.default(ajv, { mode: 'fast' })
  return ajv.compile(schema)
}

type Problem = { readonly path: (string | number)[]; readonly message: string }

function findProblem(judge: ValidateFunction, value: unknown): Problem | undefined {
  try {
    if (withinTime(() => judge(value))) return undefined
  } catch {
    // A limit, or a schema that refers to itself without end.
    return { path: [], message: 'it takes too long to judge' }
  }
  const [error] = judge.errors ?? []
  const missing: unknown = error?.params['missingProperty']
  const steps = (error?.instancePath ?? '').split('/').slice(1).map(unescapeStep)
  const path = typeof missing === 'string' ? [...steps, missing] : steps
  return { path, message: error?.keyword ?? 'false schema' }
}

const unescapeStep = (step: string) => step.replaceAll('~1', '/').replaceAll('~0', '~')

const place = createContext({ work: undefined as unknown })
const script = new Script('work()')

/** Stops the work itself, unlike a timer, which would wait for it. Throws when the time is over. */
function withinTime<T>(work: () => T): T {
  place['work'] = work
  try {
    return script.runInContext(place, { timeout: TIME_LIMIT_MS }) as T
  } finally {
    // It would keep the value that was judged.
    place['work'] = undefined
  }
}

/** Keywords whose schemas describe the same object, and those that hold named schemas, to which they may refer. */
const sameObject = ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'not']
const named = ['dependentSchemas', '$defs', 'definitions']
const opening = ['additionalProperties', 'unevaluatedProperties', 'patternProperties']

/** The same schema of an object that takes no field which it does not name: an unnamed field would have no data class. */
export function closed(schema: JsonValue | undefined): JsonObject {
  if (schema === undefined || schema === null || !isJsonObject(schema)) throw new TypeError('It is not an object.')
  if ((schema['type'] ?? 'object') !== 'object') throw new TypeError('It is not the schema of an object.')
  const isPlain = [...sameObject, 'dependentSchemas', '$ref'].every((keyword) => schema[keyword] === undefined)
  const closing = isPlain ? { additionalProperties: false } : { unevaluatedProperties: false }
  // Dropping keywords does not change the type: an object stays an object.
  return { ...(withoutOpening(schema) as JsonObject), type: 'object', ...closing }
}

function withoutOpening(schema: JsonValue): JsonValue {
  if (Array.isArray(schema)) return (schema as readonly JsonValue[]).map(withoutOpening)
  if (schema === null || typeof schema !== 'object') return schema
  const kept = Object.entries(schema as JsonObject).filter(
    ([keyword, value]) => !opening.includes(keyword) || value === false,
  )
  return Object.fromEntries(
    kept.map(([keyword, value]) => {
      if (sameObject.includes(keyword)) return [keyword, withoutOpening(value)]
      return [keyword, named.includes(keyword) ? eachOf(value, withoutOpening) : value]
    }),
  )
}

function eachOf(map: JsonValue, change: (value: JsonValue) => JsonValue): JsonValue {
  if (map === null || !isJsonObject(map)) return map
  return Object.fromEntries(Object.entries(map).map(([name, value]) => [name, change(value)]))
}
