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

/** The definitions that a value may have to fit: without wrappers, and with every option of a union. */
function alternatives(schema: unknown): readonly Part[] {
  const part = partOf(schema)
  if (!part) return [{ type: 'unknown' }]
  if (part.options) return part.options.flatMap(alternatives)
  if (part.type === 'intersection') return [part.left, part.right].flatMap(alternatives)
  if (part.getter) return alternatives(part.getter())
  // What a transformation takes is not declared; what comes out of it is.
  if (part.in !== undefined) return alternatives(partOf(part.in)?.type === 'transform' ? part.out : part.in)
  return part.innerType === undefined ? [part] : alternatives(part.innerType)
}

/** The schemas of one field. None: it is not declared. */
function schemasOf(parts: readonly Part[], name: string): readonly unknown[] {
  return parts.flatMap(({ shape, catchall, valueType }) => {
    if (shape && Object.hasOwn(shape, name)) return [shape[name]]
    const rest = shape ? catchall : valueType
    return rest === undefined || partOf(rest)?.type === 'never' ? [] : [rest]
  })
}

export function hideUndeclared(schema: z.ZodType, payload: JsonObject): JsonObject {
  return hide([schema], payload) as JsonObject
}

/** Returns the value itself if everything in it is declared. */
function hide(schemas: readonly unknown[], value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  const parts = schemas.flatMap(alternatives)
  if (parts.some(({ type }) => OPEN.has(type))) return value
  if (Array.isArray(value)) {
    const inner = parts.flatMap(({ element, items = [], rest }) =>
      [element, ...items, rest].filter((each) => each != null),
    )
    // Where no list is declared, its items have no other declaration than the field.
    const schemasOfItems = inner.length > 0 ? inner : schemas
    const items = (value as readonly JsonValue[]).map((item) => hide(schemasOfItems, item))
    return items.every((item, at) => item === value[at]) ? value : items
  }
  const fields = Object.entries(value as JsonObject).map(([name, field]): [string, JsonValue, JsonValue] => {
    const declared = schemasOf(parts, name)
    return [name, declared.length === 0 ? UNDECLARED : hide(declared, field), field]
  })
  return fields.every(([, shown, field]) => shown === field)
    ? value
    : Object.fromEntries(fields.map(([name, shown]) => [name, shown]))
}
