import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { slugForm } from '#contract'

type Shape = {
  readonly $ref?: string
  readonly type?: unknown
  readonly properties?: Record<string, Shape>
  readonly example?: unknown
  readonly additionalProperties?: unknown
  readonly enum?: unknown
  readonly description?: string
}
type Text = Shape & {
  readonly pattern?: string
  readonly allOf?: readonly Shape[]
  readonly items?: Shape
  readonly anyOf?: readonly Shape[]
  readonly oneOf?: readonly Shape[]
}
type Reference = { readonly $ref: string }
type Parameter = { readonly name: string; readonly in: string }
type Answer = { readonly description?: string; readonly content?: Record<string, { readonly schema?: Shape }> }
type Operation = {
  readonly operationId: string
  readonly summary?: string
  readonly tags?: readonly string[]
  readonly security?: readonly unknown[]
  readonly 'x-role'?: string | null
  readonly 'x-workspace'?: boolean
  readonly 'x-raw-body'?: boolean
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Record<string, { readonly schema: Shape }> }
  readonly responses: Record<string, Answer>
}
type Document = {
  readonly openapi: string
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: {
    readonly schemas: Record<string, Shape>
    readonly parameters: Record<string, Parameter>
    readonly responses: Record<string, Answer>
  }
}

const root = fileURLToPath(new URL('../../', import.meta.url))
const document = JSON.parse(readFileSync(`${root}openapi.json`, 'utf8')) as Document
const committed = Object.values(document.paths).flatMap((methods) => Object.values(methods))
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    path,
    operation: inlineParts(operation),
  })),
)

function inline<T>(part: T | Reference): T {
  if (!(part instanceof Object && '$ref' in part)) return part
  const names = part.$ref.split('/').slice(1)
  const found = names.reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document)
  assert.ok(found, part.$ref)
  return found as T
}

/** The operation with everything that it refers to but its shapes. */
function inlineParts(operation: Operation): Operation {
  const answers = Object.entries(operation.responses)
  return {
    ...operation,
    ...(operation.parameters ? { parameters: operation.parameters.map((parameter) => inline(parameter)) } : {}),
    responses: Object.fromEntries(answers.map(([status, answer]) => [status, inline(answer)])),
  }
}
const resolve = (shape: Shape): Shape =>
  shape.$ref ? (document.components.schemas[shape.$ref.split('/').at(-1) ?? ''] ?? {}) : shape

test('the committed openapi.json matches the routes', () => {
  const checked = spawnSync(process.execPath, ['scripts/openapi.ts', '--check'], { cwd: root, encoding: 'utf8' })
  assert.equal(checked.status, 0, checked.stderr)
})

test('[L1] every operation inside a workspace lists the 404 of an unknown workspace', () => {
  const inside = operations.filter(({ operation }) => (operation as { 'x-workspace'?: boolean })['x-workspace'])
  assert.ok(inside.length > 40)
  assert.deepEqual(
    inside.filter(({ operation }) => !('404' in operation.responses)).map(({ name }) => name),
    [],
  )
})

test('[L2] an id in an address has the pattern of its kind', () => {
  const ids = operations.flatMap(({ operation }) =>
    (inlineParts(operation).parameters ?? []).filter(({ name }) =>
      /^(?:command|approval|artifact|job|key)_id$/.test(name),
    ),
  )
  assert.ok(ids.length > 15)
  for (const { name, schema } of ids as readonly (Parameter & { readonly schema?: object })[])
    assert.match(String((schema as { pattern?: string }).pattern), /\[0-9a-f\]\{32\}/, name)
})

/** Every schema of a text in a request, with its place. */
function textsOf(shape: Shape, place: string): readonly (readonly [place: string, text: Text])[] {
  const { type, items, additionalProperties, anyOf, oneOf, properties = {} } = resolve(shape) as Text
  const inside = [items, additionalProperties, ...(anyOf ?? []), ...(oneOf ?? [])].filter(
    (each) => each instanceof Object,
  )
  return [
    ...(type === 'string' ? [[place, resolve(shape) as Text] as const] : []),
    ...Object.entries(properties).flatMap(([name, value]) => textsOf(value, `${place}.${name}`)),
    ...inside.flatMap((each) => textsOf(each as Shape, place)),
  ]
}

const requestTexts = operations.flatMap(({ name, operation }) => [
  ...(operation.parameters ?? []).flatMap((parameter) =>
    textsOf((parameter as { schema?: Shape }).schema ?? {}, `${name} ${parameter.name}`),
  ),
  ...textsOf(operation.requestBody?.content['application/json']?.schema ?? {}, name),
])

test('[L2] every text of a request states its form', () => {
  assert.ok(requestTexts.length > 200)
  const known = ['pattern', 'enum', 'const', 'format', 'allOf']
  assert.deepEqual(
    requestTexts.filter(([, text]) => !known.some((keyword) => keyword in text)).map(([place]) => place),
    [],
  )
})

test('[L2] every example of a text has the form that it illustrates', () => {
  for (const [place, text] of requestTexts) {
    const { example, enum: values, allOf = [] } = text
    if (typeof example !== 'string') continue
    for (const { pattern } of [text, ...allOf.map((part) => resolve(part) as Text)])
      if (pattern !== undefined) assert.match(example, new RegExp(pattern, 'u'), place)
    if (values) assert.ok((values as readonly unknown[]).includes(example), place)
  }
})

test('[L2] the header Idempotency-Key has the form and the example of the field', () => {
  const keys = operations.flatMap(({ operation }) => {
    const header = operation.parameters?.find(({ name }) => name === 'Idempotency-Key') as { schema?: Text } | undefined
    const field = resolve(operation.requestBody?.content['application/json']?.schema ?? {}).properties?.[
      'idempotency_key'
    ]
    return header && field ? [[header.schema, field] as const] : []
  })
  assert.ok(keys.length > 4)
  for (const [header, field] of keys) {
    const same = { ...header, description: undefined }
    assert.deepEqual(same, { ...field, description: undefined })
  }
})

test('[L14] the metrics and the webhooks are described', () => {
  const find = (name: string) => operations.find((each) => each.name === name)?.operation
  assert.ok(find('GET /metrics')?.responses['200']?.content?.['text/plain'])
  const webhook = find('POST /webhooks/{source}')
  assert.deepEqual(
    webhook?.parameters?.map(({ name }) => name),
    ['source', 'webhook-id', 'webhook-timestamp', 'webhook-signature'],
  )
  for (const status of ['200', '202', '400', '401', '404', '413']) assert.ok(webhook?.responses[status], status)
})

test('every operation has a unique name, a summary and a known tag', () => {
  const names = operations.map(({ operation }) => operation.operationId)
  assert.equal(new Set(names).size, names.length)
  for (const { name, operation } of operations) {
    assert.match(operation.operationId, /^[a-z][A-Za-z]+$/, name)
    assert.ok(operation.summary, name)
    assert.ok(
      operation.tags?.every((tag) => document.tags.some((known) => known.name === tag)),
      name,
    )
  }
})

test('every operation declares its role, and every closed one its problems', () => {
  for (const { name, operation } of operations) {
    const isOpen = operation.security?.length === 0
    assert.equal(isOpen, operation['x-role'] === null, name)
    if (isOpen) continue
    assert.ok(['reader', 'writer', 'admin'].includes(operation['x-role'] ?? ''), name)
    for (const status of ['401', '403', '429', '503']) {
      assert.equal(
        operation.responses[status]?.content?.['application/problem+json']?.schema?.$ref,
        '#/components/schemas/Problem',
        `${name} ${status}`,
      )
    }
    const headers = (operation.parameters ?? [])
      .filter((parameter) => parameter.in === 'header')
      .map((parameter) => parameter.name)
    assert.equal(headers.includes('X-Workspace-ID') && headers.includes('X-Workspace'), operation['x-workspace'], name)
  }
})

test('every body is closed to unknown fields, has an example for each field, and its problems are described', () => {
  for (const { name, operation } of operations) {
    if (!operation.requestBody) continue
    assert.equal(operation.requestBody.required, true, name)
    if (operation['x-raw-body']) continue
    const shape = resolve(operation.requestBody.content['application/json']?.schema ?? {})
    assert.equal(shape.additionalProperties, false, name)
    for (const [field, value] of Object.entries(shape.properties ?? {}))
      assert.notEqual(resolve(value).example, undefined, `${name} ${field}`)
    for (const status of ['400', '408', '413', '415', '422'])
      assert.ok(operation.responses[status], `${name} ${status}`)
  }
})

test('names on the wire are snake_case', () => {
  for (const [name, shape] of Object.entries(document.components.schemas)) {
    for (const field of Object.keys(shape.properties ?? {}))
      assert.match(field, /^[a-z][a-z0-9_]*$/, `${name}.${field}`)
  }
})

test('problems and shared parameters are in the document once, and all are used', () => {
  const parts = committed.flatMap(({ parameters = [], responses }) => [...parameters, ...Object.values(responses)])
  const refs = new Set(parts.flatMap((part) => ('$ref' in part ? [String(part.$ref)] : [])))
  const shared = (['parameters', 'responses'] as const).flatMap((kind) =>
    Object.keys(document.components[kind]).map((name) => `#/components/${kind}/${name}`),
  )
  assert.deepEqual([...refs].sort(), shared.sort())
  const inPlace = parts.filter((part) => !('$ref' in part)).map((part) => JSON.stringify(part))
  assert.deepEqual(
    inPlace.filter((part) => part.includes('application/problem+json')),
    [],
  )
  assert.deepEqual(
    inPlace.filter((part, at) => part.includes('"in":') && inPlace.indexOf(part) !== at),
    [],
  )
})

test('resolved references give the original operations', () => {
  const problem = (description: string) => ({
    description,
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  })
  const id = (prefix: string) => ({
    pattern: `^(?:${prefix}_[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`,
    example: `${prefix}_0197f3b2c4d57a8e9b0c1d2e3f405161`,
  })
  const workspace = [
    {
      name: 'X-Workspace-ID',
      in: 'header',
      required: false,
      description: 'The workspace, by id.',
      schema: { type: 'string', ...id('ws') },
    },
    {
      name: 'X-Workspace',
      in: 'header',
      required: false,
      description: 'The workspace, by short name.',
      schema: { type: 'string', ...slugForm, example: 'default' },
    },
  ]
  const query = {
    schema: { type: 'string', ...id('ws'), description: 'The workspace, if no header names it.' },
    required: false,
    description: 'The workspace, if no header names it.',
    name: 'workspace_id',
    in: 'query',
  }
  const find = (id: string) => operations.find(({ operation }) => operation.operationId === id)?.operation
  assert.deepEqual(find('removeSchedule')?.parameters, [
    ...workspace,
    {
      schema: { type: 'string', ...id('csched') },
      required: true,
      name: 'schedule_id',
      in: 'path',
    },
    query,
  ])
  assert.deepEqual(find('removeSchedule')?.responses, {
    204: { description: 'The schedule is deleted.' },
    400: problem('The request is malformed.'),
    401: problem('The credential is missing or not valid.'),
    403: problem('The credential may not do this.'),
    404: problem('Not found, or not visible to you.'),
    409: problem('Not possible in the present state.'),
    422: problem('A value is not allowed.'),
    429: problem('Too many requests. Retry-After gives the waiting time.'),
    503: problem('The database does not answer. Retry-After gives the waiting time.'),
  })
  assert.deepEqual(find('listWorkspaces')?.parameters, [
    {
      schema: {
        type: 'integer',
        minimum: 1,
        maximum: 500,
        default: 50,
        example: 50,
        description: 'Rows of a page. A page ends earlier at 4 MiB.',
      },
      required: false,
      description: 'Rows of a page. A page ends earlier at 4 MiB.',
      name: 'limit',
      in: 'query',
    },
    {
      schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{23,1024}$', description: '`next_cursor` of the page before.' },
      required: false,
      description: '`next_cursor` of the page before.',
      name: 'cursor',
      in: 'query',
    },
    query,
  ])
})
