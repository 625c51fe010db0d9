/** Generates the OpenAPI document from the routes; `openapi.json` is its committed copy. */
import type { OpenAPIHono } from '@hono/zod-openapi'
import { slugForm, workspaceIdForm } from '#contract'
import { cronForm } from '#kernel/cron'
import { lineForm } from '#kernel/visible-text'
import type { ApiEnv } from './guards.ts'

export type OpenApiDocument = ReturnType<OpenAPIHono<ApiEnv>['getOpenAPI31Document']>

const ABOUT = `Every request except to open routes carries \`Authorization: Bearer\` with an API key or a token of your identity provider.
The workspace of a request comes from, in this order: the header \`X-Workspace-ID\`, the header \`X-Workspace\` (short name), the
query \`workspace_id\`, the installation's default. Ids are a prefix and 32 hex digits; times are RFC 3339 in UTC. Every error
is a problem (RFC 9457) with a stable \`code\`, and every answer has an \`X-Request-ID\` and an \`X-Trace-ID\`.`

/** `tags` are the subjects of the routes in reading order, each with a description. */
export function describeApi(
  app: OpenAPIHono<ApiEnv>,
  version: string,
  tags: readonly (readonly [name: string, description: string])[],
): OpenApiDocument {
  app.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key (`ck_…`) or a JWT of the configured identity provider.',
  })
  app.openAPIRegistry.registerComponent('schemas', 'VisibleLine', {
    type: 'string',
    pattern: lineForm,
    description: 'One line in which every character is visible, without a space at either end.',
  })
  app.openAPIRegistry.registerComponent('schemas', 'CronExpression', {
    type: 'string',
    pattern: cronForm,
    description: 'Five fields of numbers, ranges, steps, lists and English names. A range ends after it begins.',
  })
  const document = app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Concord',
      version,
      description: ABOUT.replaceAll('\n', ' '),
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: [{ url: '/' }],
    tags: tags.map(([name, description]) => ({ name, description })),
  })
  addWorkspaceHeaders(document)
  shareParts(document)
  return document
}

/** Formats the committed text: two spaces, each reference on one line, and no character that an editor hides. */
export function formatApi(document: OpenApiDocument): string {
  const text = JSON.stringify(document, null, 2).replaceAll(/\{\s+("\$ref": "[^"]+")\s+\}/g, '{ $1 }')
  return `${text.replaceAll(/[\ud800-\udfff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16)}`)}\n`
}

const WORKSPACE_HEADERS = [
  ['X-Workspace-ID', 'The workspace, by id.', workspaceIdForm],
  ['X-Workspace', 'The workspace, by short name.', { ...slugForm, example: 'default' }],
] as const

type Parameter = { readonly name: string; readonly in: string }
type Answer = { readonly content?: Readonly<Record<string, unknown>> }
type Described = {
  tags?: readonly string[]
  parameters?: unknown[]
  responses?: Record<string, unknown>
  'x-workspace'?: boolean
}

/** Adds the two workspace headers to every route inside a workspace; the guard reads them, so no route declares them. */
function addWorkspaceHeaders(document: OpenApiDocument): void {
  for (const operation of operationsOf(document)) {
    if (!operation['x-workspace']) continue
    const headers = WORKSPACE_HEADERS.map(([name, description, form]) => ({
      name,
      in: 'header',
      required: false,
      description,
      schema: { type: 'string', ...form },
    }))
    operation.parameters = [...headers, ...(operation.parameters ?? [])]
  }
}

function operationsOf(document: OpenApiDocument): Described[] {
  return Object.values(document.paths ?? {}).flatMap((path) => Object.values(path as Record<string, Described>))
}

/** Moves problems and shared parameters to the components; each operation references them. */
function shareParts(document: OpenApiDocument): void {
  const parameters: Record<string, unknown> = {}
  const responses: Record<string, unknown> = {}
  const names = nameShared(operationsOf(document))
  for (const operation of operationsOf(document)) {
    for (const [status, answer] of Object.entries(operation.responses ?? {})) {
      if (!(answer as Answer).content?.['application/problem+json']) continue
      responses[`Problem${status}`] ??= answer
      operation.responses = { ...operation.responses, [status]: { $ref: `#/components/responses/Problem${status}` } }
    }
    operation.parameters &&= operation.parameters.map((parameter) => {
      const name = names.get(JSON.stringify(parameter))
      if (name === undefined) return parameter
      parameters[name] = parameter
      return { $ref: `#/components/parameters/${name}` }
    })
  }
  document.components = { ...document.components, parameters, responses } as OpenApiDocument['components'] & object
}

/** Names the shared parameters: `limit` when several tags use it, `artifacts.artifact_id` when one does. */
function nameShared(operations: readonly Described[]): Map<string, string> {
  const uses = new Map<string, string[]>()
  for (const { parameters, tags } of operations) {
    for (const parameter of parameters ?? []) {
      const key = JSON.stringify(parameter)
      uses.set(key, [...(uses.get(key) ?? []), tags?.[0] ?? ''])
    }
  }
  const names = new Map<string, string>()
  for (const [key, tags] of uses) {
    const { name } = JSON.parse(key) as Parameter
    if (tags.length > 1) names.set(key, new Set(tags).size > 1 ? name : `${tags[0]}.${name}`)
  }
  if (new Set(names.values()).size !== names.size) throw new TypeError('Two shared parameters have the same name.')
  return names
}
