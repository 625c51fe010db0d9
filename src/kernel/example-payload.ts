/** Example payloads from a JSON Schema: one to begin with, and variants that reach the branches of a function. */

type Schema = { readonly [keyword: string]: unknown }

const DEPTH_MAX = 6
const formats: Readonly<Record<string, string>> = {
  'date-time': '2026-05-01T10:00:00Z',
  date: '2026-05-01',
  time: '10:00:00',
  email: 'name@example.com',
  uri: 'https://example.com',
  uuid: '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170',
}

/** Fills the required fields of the schema; `inputs` are paths of further fields that the task asks for. */
export function examplePayload(schema: Schema, inputs: readonly string[] = []): Record<string, unknown> {
  const example = exampleOf(schema, 'value', schema, 0)
  const payload = isObject(example) ? { ...example } : {}
  for (const path of inputs) addInput(payload, path.split('.'), schema, schema)
  return payload
}

const AMOUNTS = [0, 1, 1_000_000_000]

/**
 * The example with every optional field, and variants of it in one field each: every choice, both values of a flag, small and large
 * numbers, the field left out. They need not be valid: a caller that parses them drops the others.
 */
export function exampleVariants(schema: Schema): readonly Record<string, unknown>[] {
  const properties = propertiesOf(schema)
  const whole = examplePayload(schema, Object.keys(properties))
  const variants = Object.entries(properties).flatMap(([name, field]) => {
    const { [name]: _left, ...without } = whole
    return [...valuesOf(field, name, schema).map((value) => ({ ...whole, [name]: value })), without]
  })
  return [whole, examplePayload(schema), ...variants]
}

function valuesOf(written: Schema, name: string, root: Schema): readonly unknown[] {
  const schema = resolveRef(written, root)
  const choices = [...listOf(schema['anyOf']), ...listOf(schema['oneOf'])].filter(isObject)
  if (choices.length > 0) return choices.flatMap((choice) => valuesOf(choice, name, root))
  const listed = listOf(schema['enum'])
  if (listed.length > 0) return listed
  switch (schema['type']) {
    case 'boolean':
      return [true, false]
    case 'integer':
    case 'number':
      return [...AMOUNTS, schema['minimum'], schema['maximum']].filter((each) => typeof each === 'number')
    case 'array':
      return [[], isObject(schema['items']) ? [exampleOf(schema['items'], name, root, 1)] : []]
    default:
      return [exampleOf(schema, name, root, 1)]
  }
}

function addInput(into: Record<string, unknown>, steps: readonly string[], schema: Schema, root: Schema): void {
  const [name, ...rest] = steps
  if (name === undefined || name === '') return
  const field = propertiesOf(resolveRef(schema, root))[name] ?? {}
  if (rest.length === 0) {
    if (!Object.hasOwn(into, name)) into[name] = exampleOf(field, name, root, 1)
    return
  }
  const inner = into[name]
  const copy: Record<string, unknown> = isObject(inner) ? { ...inner } : {}
  into[name] = copy
  addInput(copy, rest, field, root)
}

function exampleOf(written: Schema, name: string, root: Schema, depth: number): unknown {
  const schema = resolveRef(written, root)
  if (depth > DEPTH_MAX) return null
  if ('example' in schema) return schema['example']
  for (const keyword of ['examples', 'enum'] as const) {
    const [first] = listOf(schema[keyword])
    if (first !== undefined) return first
  }
  if ('const' in schema) return schema['const']
  if ('default' in schema) return schema['default']
  const [choice] = [...listOf(schema['anyOf']), ...listOf(schema['oneOf'])].filter(isObject)
  if (choice) return exampleOf(choice, name, root, depth + 1)
  const parts = listOf(schema['allOf']).filter(isObject)
  if (parts.length > 0) {
    const made = parts.map((part) => exampleOf(part, name, root, depth + 1))
    return made.every(isObject) ? Object.assign({}, ...made) : made[0]
  }
  const type = listOf(schema['type'])[0] ?? schema['type'] ?? ('properties' in schema ? 'object' : undefined)
  switch (type) {
    case 'object': {
      const properties = propertiesOf(schema)
      const required = listOf(schema['required']).filter((key) => typeof key === 'string')
      return Object.fromEntries(required.map((key) => [key, exampleOf(properties[key] ?? {}, key, root, depth + 1)]))
    }
    case 'array': {
      const items = schema['items']
      return isObject(items) && Number(schema['minItems'] ?? 0) > 0 ? [exampleOf(items, name, root, depth + 1)] : []
    }
    case 'integer':
    case 'number':
      return numberOf(schema)
    case 'boolean':
      return true
    case 'null':
      return null
    default:
      return formats[String(schema['format'])] ?? `<${name}>`
  }
}

function numberOf(schema: Schema): number {
  const { minimum, exclusiveMinimum, maximum } = schema
  if (typeof exclusiveMinimum === 'number' && exclusiveMinimum >= 1) return exclusiveMinimum + 1
  // Zod writes the bounds of a safe integer where the author gave none.
  if (typeof minimum === 'number' && minimum > 1) return minimum
  return typeof maximum === 'number' && maximum < 1 ? maximum : 1
}

/** Follows references inside the same document only. */
function resolveRef(schema: Schema, root: Schema): Schema {
  const ref = schema['$ref']
  if (typeof ref !== 'string') return schema
  let found: unknown = root
  for (const step of ref.replace(/^#\/?/, '').split('/').filter(Boolean)) {
    found = isObject(found) && Object.hasOwn(found, step) ? found[step] : {}
  }
  return isObject(found) ? found : {}
}

function propertiesOf(schema: Schema): Record<string, Schema> {
  const { properties } = schema
  return isObject(properties)
    ? Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, isObject(field) ? field : {}]))
    : {}
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
