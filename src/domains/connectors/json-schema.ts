/**
 * Judges values by JSON Schemas that others wrote: the tools of MCP servers, and connectors declared in files. The result is a zod type
 * like that of a contract in code.
 *
 * A schema can be made to take forever: a regular expression that backtracks, references that branch, unique items of a long list. So
 * reading a schema and judging a value both have a time limit. A reference to another document is refused; nothing is fetched.
 */
import { createContext, Script } from 'node:vm'
import type { Options, ValidateFunction } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
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
  // Otherwise every object would have the field `toString`.
  ownProperties: true,
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
  // The judge of such a schema answers with a promise, outside the time limit.
  if (text.includes('"$async":')) throw new TypeError('It has the keyword $async, which is not part of JSON Schema.')
  const type = makeType(schema)
  if (kept.size >= KEPT_MAX) kept.clear()
  kept.set(text, type)
  return type
}

function makeType(schema: JsonObject): z.ZodType {
  const { $schema, ...plain } = schema
  const dialect = typeof $schema === 'string' && /draft-0[467]|2019-09/.test($schema) ? 'old' : 'new'
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

/** The dialects: most servers write the newest one, or draft 7, which 2019-09 includes. */
const dialects = { new: Ajv2020, old: Ajv2019 } as const
type Dialect = keyof typeof dialects

/** Knows what a schema is. Making one takes 100 ms, and it keeps nothing of the schemas that it checks. */
const checkers: Partial<Record<Dialect, Ajv2019 | Ajv2020>> = {}

function checkerOf(dialect: Dialect): Ajv2019 | Ajv2020 {
  const known = checkers[dialect] ?? new dialects[dialect](options)
  if (!checkers[dialect]) void known.validateSchema({})
  checkers[dialect] = known
  return known
}

/** Each schema has a judge of its own: the names in one cannot reach another. */
function compile(schema: JsonObject, dialect: Dialect, checker: Ajv2019 | Ajv2020): ValidateFunction {
  if (checker.validateSchema(schema) !== true)
    throw new TypeError(`It is not a JSON Schema of draft 6 or later: ${checker.errorsText()}`)
  const ajv = new dialects[dialect]({ ...options, meta: false, validateSchema: false })
  addFormats.default(ajv, { mode: 'fast' })
  return ajv.compile(schema)
}

type Problem = { readonly path: (string | number)[]; readonly message: string }

function findProblem(judge: ValidateFunction, value: unknown): Problem | undefined {
  try {
    if (withinTime<unknown>(() => judge(value)) === true) return undefined
  } catch {
    // A limit, or a schema that refers to itself without end.
    return { path: [], message: 'it takes too long to judge' }
  }
  const [error] = judge.errors ?? []
  const missing: unknown = error?.params['missingProperty']
  const steps = (error?.instancePath ?? '').split('/').slice(1).map(unescapeStep)
  const path = typeof missing === 'string' ? [...steps, missing] : steps
  const keyword = error?.propertyName === undefined ? error?.keyword : 'propertyNames'
  return { path, message: keyword ?? 'false schema' }
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

/** Keywords whose schemas describe the same object: one or a list, by name, and by reference. */
const parts = ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else']
const partsByName = ['dependentSchemas', 'dependencies']
const references = ['$ref', '$dynamicRef', '$recursiveRef']
const opening = ['additionalProperties', 'unevaluatedProperties', 'patternProperties']

/** The same schema of an object that takes no field which it does not name: an unnamed field would have no data class. */
export function closed(schema: JsonValue | undefined): JsonObject {
  if (schema === undefined || schema === null || !isJsonObject(schema)) throw new TypeError('It is not an object.')
  if ((schema['type'] ?? 'object') !== 'object') throw new TypeError('It is not the schema of an object.')
  const kept = Object.entries(schema).filter(([keyword, value]) => !opening.includes(keyword) || value === false)
  return { ...Object.fromEntries(kept), type: 'object', ...closing(schema) }
}

function closing(schema: JsonObject): JsonObject {
  const names = [...new Set(namesIn(schema, schema, new Set()))]
  const here = namedBy(schema['properties'])
  if (names.every((name) => here.includes(name))) return { additionalProperties: false }
  const { propertyNames } = schema
  // A part may itself take any field, so the names are listed.
  return {
    unevaluatedProperties: false,
    propertyNames: { enum: names, ...(propertyNames !== undefined && { allOf: [propertyNames] }) },
  }
}

const namedBy = (map: JsonValue | undefined) => Object.keys(map !== undefined && isJsonObject(map) ? map : {})

/** The fields of the object that this part describes. `seen`: a part may refer to itself. */
function namesIn(part: JsonValue | undefined, root: JsonObject, seen: Set<JsonValue>): readonly string[] {
  if (Array.isArray(part)) return (part as readonly JsonValue[]).flatMap((each) => namesIn(each, root, seen))
  if (part === undefined || part === null || !isJsonObject(part) || seen.has(part)) return []
  seen.add(part)
  const named = partsByName.map((keyword) => part[keyword] ?? null).filter((map) => map !== null && isJsonObject(map))
  const inside = [
    ...parts.map((keyword) => part[keyword]),
    ...named.flatMap((map) => Object.values(map)),
    ...references.map((keyword) => partAt(part[keyword], root)),
  ]
  return [...namedBy(part['properties']), ...inside.flatMap((each) => namesIn(each, root, seen))]
}

function partAt(reference: JsonValue | undefined, root: JsonObject): JsonValue | undefined {
  if (typeof reference !== 'string') return undefined
  if (!/^#(?:\/|$)/.test(reference)) throw new TypeError(`It refers to ${reference}, which is not a path in it.`)
  const steps = decodeURIComponent(reference).split('/').slice(1).map(unescapeStep)
  return steps.reduce<JsonValue | undefined>((at, step) => {
    if (at === undefined || at === null || typeof at !== 'object' || !Object.hasOwn(at, step)) return undefined
    return (at as JsonObject)[step]
  }, root)
}
