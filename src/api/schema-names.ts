/** Which field names a zod schema knows at a place inside it; used only to suggest a name, so doubt means none. */
import type { JsonStep } from '#kernel/json-value'

/** The part of zod's definition that is walked; zod's own types for it are wider than what is needed. */
type Definition = {
  readonly type: string
  readonly shape?: Readonly<Record<string, unknown>>
  readonly innerType?: unknown
  readonly element?: unknown
  readonly valueType?: unknown
  readonly in?: unknown
  readonly options?: readonly unknown[]
}

function definitionOf(schema: unknown): Definition | undefined {
  return (schema as { _zod?: { def?: Definition } } | undefined)?._zod?.def
}

/** Wrappers such as optional, nullable, default and pipe stand for what they wrap; a union stands for all its options. */
function unwrap(schema: unknown): Definition[] {
  const definition = definitionOf(schema)
  if (!definition) return []
  if (definition.options) return definition.options.flatMap(unwrap)
  const inner = definition.innerType ?? definition.in
  return inner === undefined ? [definition] : unwrap(inner)
}

export function namesAt(schema: unknown, steps: readonly JsonStep[]): readonly string[] {
  let here = unwrap(schema)
  for (const step of steps) {
    here = here.flatMap((definition) => unwrap(definition.shape?.[step] ?? definition.element ?? definition.valueType))
  }
  return [...new Set(here.flatMap((definition) => Object.keys(definition.shape ?? {})))]
}
