/** Hides the values of fields that a contract does not declare: they are in no rule and no class, so nothing says that they may be stored. */
import type { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/json-value'

/** Stands for the value. The name stays, so the payload is refused for the same reason as before. */
const UNDECLARED = '[undeclared]'

/** The parts of zod's definitions that are used here. */
type Part = {
  readonly type: string
  readonly shape?: Readonly<Record<string, unknown>>
  readonly catchall?: unknown
  readonly valueType?: unknown
  readonly element?: unknown
  readonly items?: readonly unknown[]
  readonly rest?: unknown
  readonly options?: readonly unknown[]
  readonly left?: unknown
  readonly right?: unknown
  readonly innerType?: unknown
  readonly in?: unknown
  readonly out?: unknown
  readonly getter?: () => unknown
}

/** Types that say nothing about what is inside, so that everything is declared. */
const OPEN = new Set(['any', 'unknown', 'custom', 'transform', 'promise', 'map', 'set', 'function'])

const partOf = (schema: unknown) => (schema as { readonly _zod?: { readonly def?: Part } } | undefined)?._zod?.def

const known = new WeakMap<object, readonly Part[]>()

/** The definitions that a value may have to fit: without wrappers, and with every option of a union. A schema does not change. */
function alternatives(schema: unknown): readonly Part[] {
  if (typeof schema !== 'object' || schema === null) return [{ type: 'unknown' }]
  const found = known.get(schema) ?? unwrap(schema)
  known.set(schema, found)
  return found
}

function unwrap(schema: object): readonly Part[] {
  const part = partOf(schema)
  if (!part) return [{ type: 'unknown' }]
  if (part.options) return part.options.flatMap(alternatives)
  if (part.type === 'intersection') return [part.left, part.right].flatMap(alternatives)
  if (part.getter) return alternatives(part.getter())
  // What a transformation takes is not declared; what comes out of it is.
  if (part.in !== undefined) return alternatives(partOf(part.in)?.type === 'transform' ? part.out : part.in)
  return part.innerType === undefined ? [part] : alternatives(part.innerType)
}

/** The schema of one field. Undefined: it is not declared. */
function schemaOf({ shape, catchall, valueType }: Part, name: string): unknown {
  if (shape && Object.hasOwn(shape, name)) return shape[name]
  const rest = shape ? catchall : valueType
  return rest !== undefined && partOf(rest)?.type !== 'never' ? rest : undefined
}

const isSchema = (value: unknown) => value !== undefined && value !== null

export function hideUndeclared(schema: z.ZodType, payload: JsonObject): JsonObject {
  return hide([schema], payload) as JsonObject
}

/** Returns the value itself if everything in it is declared. */
function hide(schemas: readonly unknown[], value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  const [only] = schemas
  const parts = schemas.length === 1 ? alternatives(only) : schemas.flatMap(alternatives)
  if (parts.some(({ type }) => OPEN.has(type))) return value
  if (Array.isArray(value)) return hideInList(schemas, parts, value as readonly JsonValue[])
  let copy: Record<string, JsonValue> | undefined
  for (const name of Object.keys(value)) {
    const field = (value as JsonObject)[name] ?? null
    const isDeclared = parts.some((part) => schemaOf(part, name) !== undefined)
    // Most fields are texts and numbers, with nothing inside.
    if (isDeclared && (typeof field !== 'object' || field === null)) continue
    const shown = isDeclared ? hide(parts.map((part) => schemaOf(part, name)).filter(isSchema), field) : UNDECLARED
    if (shown !== field) (copy ??= { ...(value as JsonObject) })[name] = shown
  }
  return copy ?? value
}

function hideInList(schemas: readonly unknown[], parts: readonly Part[], list: readonly JsonValue[]): JsonValue {
  const inner = parts.flatMap(({ element, items = [], rest }) => [element, ...items, rest]).filter(isSchema)
  // Where no list is declared, its items have no other declaration than the field.
  const items = list.map((item) => hide(inner.length > 0 ? inner : schemas, item))
  return items.every((item, at) => item === list[at]) ? list : items
}
