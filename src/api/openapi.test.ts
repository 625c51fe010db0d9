import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

type Shape = {
  readonly $ref?: string
  readonly type?: unknown
  readonly properties?: Record<string, Shape>
  readonly example?: unknown
  readonly additionalProperties?: unknown
  readonly enum?: unknown
  readonly description?: string
}
type Answer = { readonly description?: string; readonly content?: Record<string, { readonly schema?: Shape }> }
type Operation = {
  readonly operationId: string
  readonly summary?: string
  readonly tags?: readonly string[]
  readonly security?: readonly unknown[]
  readonly 'x-role'?: string | null
  readonly 'x-workspace'?: boolean
  readonly parameters?: readonly { readonly name: string; readonly in: string }[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Record<string, { readonly schema: Shape }> }
  readonly responses: Record<string, Answer>
}
type Document = {
  readonly openapi: string
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: { readonly schemas: Record<string, Shape> }
}

const root = fileURLToPath(new URL('../../', import.meta.url))
const document = JSON.parse(readFileSync(`${root}openapi.json`, 'utf8')) as Document
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, path, operation })),
)
const resolve = (shape: Shape): Shape =>
  shape.$ref ? (document.components.schemas[shape.$ref.split('/').at(-1) ?? ''] ?? {}) : shape

test('the committed openapi.json is what the routes say', () => {
  const checked = spawnSync(process.execPath, ['scripts/openapi.ts', '--check'], { cwd: root, encoding: 'utf8' })
  assert.equal(checked.status, 0, checked.stderr)
})

test('every operation has one name of its own, a sentence and a known tag', () => {
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

test('every operation says who may call it, and every closed one what it answers otherwise', () => {
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
