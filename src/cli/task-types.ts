/** `concord task-types`: lists the tasks that can be submitted, each with an example payload made from its JSON Schema. */
import type { taskTypeView } from '#domains/commands'
import { listVerb, type ViewOf } from './noun.ts'

export const taskTypes = listVerb<ViewOf<typeof taskTypeView>, []>({
  description: 'list the tasks that can be submitted, and which of them agents may propose',
  examples: ['concord task-types'],
  at: () => '/task-types',
  none: () => 'This server has no tasks.',
  columns: {
    task: ({ task_name }) => task_name,
    risk: ({ risk_level }) => risk_level,
    // A policy may still ask for an approval where the contract does not.
    approval: ({ approval_required }) => (approval_required ? 'always' : 'by policy'),
    agents: ({ ingress_types }) => (ingress_types.includes('agent_action') ? 'may ask' : '-'),
    'example payload': ({ payload_schema, required_inputs }) =>
      JSON.stringify(examplePayload(payload_schema, required_inputs)),
  },
})

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
