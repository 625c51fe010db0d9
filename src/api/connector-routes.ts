/** The doors to other systems: which there are, what each operation promises, and what was called. Nothing is called from here. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView } from '#contract'
import {
  approvedDefinition,
  approveDefinition,
  connectorDetailView,
  type Connectors,
  connectorView,
  definitionView,
  invocationView,
  listDefinitions,
  listInvocations,
  toConnectorDetailView,
  toConnectorView,
  toDefinitionView,
  toInvocationView,
} from '#domains/connectors'
import { didYouMean } from '#kernel/nearest'
import { quote, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import { openPageCursors } from './page-cursor.ts'
import { principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('connectors', needs('reader'))
const administers = headOf('connectors', needs('admin'))

const connectorId = z.string().min(1).max(100).meta({ example: 'hotel_booking' })

const getConnectors = createRoute({
  ...reads('get', '/connectors', 'listConnectors', 'The connectors of this installation'),
  request: { query: queryOf({}) },
  responses: {
    200: jsonAnswer(z.object({ items: z.array(connectorView) }).meta({ id: 'ConnectorList' }), 'The connectors.'),
    ...problems(422),
  },
})

const getOneConnector = createRoute({
  ...reads('get', '/connectors/{connector_id}', 'getConnector', 'One connector with the contract of every operation'),
  request: { query: queryOf({}), params: z.object({ connector_id: connectorId }) },
  responses: { 200: jsonAnswer(connectorDetailView, 'The connector.'), ...problems(404, 422) },
})

const getInvocations = createRoute({
  ...reads(
    'get',
    '/connectors/{connector_id}/invocations',
    'listInvocations',
    'The calls of a connector in this workspace, newest first',
  ),
  request: {
    query: queryOf({
      ...pageFields,
      status: z.enum(['started', 'succeeded', 'failed']).optional().meta({ example: 'failed' }),
      command_id: idField('command').optional().meta({ description: 'Only of this command.' }),
    }),
    params: z.object({ connector_id: connectorId }),
  },
  responses: {
    200: jsonAnswer(pageView(invocationView, 'ConnectorInvocationPage'), 'A page of calls.'),
    ...problems(400, 404, 422),
  },
})

const definitionList = z.object({ items: z.array(definitionView) }).meta({ id: 'ConnectorDefinitionList' })

const getDefinitions = createRoute({
  ...reads(
    'get',
    '/connectors/{connector_id}/definitions',
    'listConnectorDefinitions',
    'What a provider that describes itself said last, and what of it is approved',
  ),
  request: { query: queryOf({}), params: z.object({ connector_id: connectorId }) },
  responses: { 200: jsonAnswer(definitionList, 'The definitions.'), ...problems(404, 422) },
})

const postCheck = createRoute({
  ...administers(
    'post',
    '/connectors/{connector_id}/definitions/check',
    'checkConnectorDefinitions',
    'Ask the provider what it says about itself now; none of its operations is called',
  ),
  request: { query: queryOf({}), params: z.object({ connector_id: connectorId }) },
  responses: { 200: jsonAnswer(definitionList, 'The definitions.'), ...problems(404, ...bodyProblems, 503) },
})

const postApprove = createRoute({
  ...administers(
    'post',
    '/connectors/{connector_id}/definitions/{operation}/approve',
    'approveConnectorDefinition',
    'Approve the definition of an operation, named by the hash that was shown',
  ),
  request: {
    query: queryOf({}),
    params: z.object({ connector_id: connectorId, operation: connectorId }),
    body: jsonBody(
      z
        .strictObject({ hash: z.string().min(1).max(100).meta({ example: 'sha256:9f86…' }) })
        .meta({ id: 'ApproveConnectorDefinition' }),
      'Which definition.',
    ),
  },
  responses: { 200: jsonAnswer(definitionView, 'The definition, approved.'), ...problems(404, 409, ...bodyProblems) },
})

export type ConnectorRouteDeps = Pick<ApiDeps, 'cursorKey' | 'db' | 'now' | 'newId'> & {
  readonly connectors: Connectors
}

export function connectorRoutes({ db, cursorKey, now, newId, connectors }: ConnectorRouteDeps) {
  const cursors = openPageCursors(cursorKey)
  const isOpen = (name: string) => !connectors.isOpen(name)
  const find = (id: string) => connectors.definitions.find(({ connector_id }) => connector_id === id)
  const unknown = (id: string) =>
    refuse('connectors.connector.not_found', `There is no connector ${quote(id)}.`, {
      hint: 'GET /connectors lists them.',
      ...didYouMean(
        id,
        connectors.definitions.map(({ connector_id }) => connector_id),
      ),
    })
  return newRouter()
    .openapi(getConnectors, (c) => {
      const items = connectors.definitions.map((definition) => toConnectorView(definition, isOpen(definition.name)))
      return c.json({ items: items.toSorted((a, b) => (a.connector_id < b.connector_id ? -1 : 1)) }, 200)
    })
    .openapi(getOneConnector, async (c) => {
      const id = c.req.valid('param').connector_id
      const definition = find(id)
      if (!definition) return refused(c, unknown(id))
      const approved = await approvedDefinition(db, definition, workspaceOf(c).id)
      return c.json(toConnectorDetailView(approved, isOpen(definition.name)), 200)
    })
    .openapi(getInvocations, async (c) => {
      const [workspace, query] = [workspaceOf(c), c.req.valid('query')]
      const id = c.req.valid('param').connector_id
      const definition = find(id)
      if (!definition) return refused(c, unknown(id))
      const scope = ['listInvocations', workspace.id, id, query.status ?? null, query.command_id ?? null]
      const after = query.cursor === undefined ? undefined : cursors.open(scope, query.cursor)
      if (after && !after.ok) return refused(c, after)
      const page = await listInvocations(db, {
        workspaceId: workspace.id,
        connectorName: definition.name,
        status: query.status,
        commandId: query.command_id,
        after: after?.value,
        limit: limitOf(query),
      })
      const next_cursor = page.next ? cursors.seal(scope, page.next) : null
      return c.json({ items: page.items.map(toInvocationView), next_cursor }, 200)
    })
    .openapi(getDefinitions, async (c) => {
      const id = c.req.valid('param').connector_id
      const definition = find(id)
      if (!definition) return refused(c, unknown(id))
      const items = await listDefinitions(db, workspaceOf(c).id, definition.name)
      return c.json({ items: items.map(toDefinitionView) }, 200)
    })
    .openapi(postCheck, async (c) => {
      const id = c.req.valid('param').connector_id
      const definition = find(id)
      if (!definition) return refused(c, unknown(id))
      const asked = { workspaceId: workspaceOf(c).id, traceId: c.get('ids').traceId, signal: c.req.raw.signal }
      const checked = await connectors.check(definition.name, asked)
      return checked.ok ? c.json({ items: checked.value.map(toDefinitionView) }, 200) : refused(c, checked)
    })
    .openapi(postApprove, async (c) => {
      const { connector_id: id, operation } = c.req.valid('param')
      const definition = find(id)
      if (!definition) return refused(c, unknown(id))
      const approved = await approveDefinition({ db, now, newId }, definition, {
        workspaceId: workspaceOf(c).id,
        operation,
        hash: c.req.valid('json').hash,
        principal: principalOf(c),
        traceId: c.get('ids').traceId,
      })
      return approved.ok ? c.json(toDefinitionView(approved.value), 200) : refused(c, approved)
    })
}
