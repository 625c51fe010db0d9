/** Connectors: list, contracts of their operations, definitions and calls. No operation is called from here. */
import { z } from '@hono/zod-openapi'
import { idField, pageView, textField } from '#contract'
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
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import { bodyProblems } from './problem.ts'
import { resource, routes, shown } from './resource.ts'

type Api = Pick<ApiDeps, 'db' | 'now' | 'newId'> & { readonly connectors: Connectors }

const { list, get, post } = resource<Api>('connectors')

const connectorId = textField(100, { charsMin: 1 }).meta({ example: 'hotel_booking' })
const params = { connector_id: connectorId }
const definitionList = z.object({ items: z.array(definitionView) }).meta({ id: 'ConnectorDefinitionList' })

function find({ connectors }: Api, id: string): Decision<Connectors['definitions'][number]> {
  const found = connectors.definitions.find(({ connector_id }) => connector_id === id)
  if (found) return accept(found)
  return refuse('connectors.connector.not_found', `There is no connector ${quote(id)}.`, {
    hint: 'GET /connectors lists them.',
    ...didYouMean(
      id,
      connectors.definitions.map(({ connector_id }) => connector_id),
    ),
  })
}

export const connectorRoutes = routes({
  listConnectors: get('/connectors', {
    summary: 'List the connectors of this installation',
    role: 'reader',
    answers: {
      200: ['The connectors.', z.object({ items: z.array(connectorView) }).meta({ id: 'ConnectorList' })],
    },
    handle({ deps: { connectors } }) {
      const items = connectors.definitions.map((each) => toConnectorView(each, !connectors.isOpen(each.name)))
      return accept({ items: items.toSorted((a, b) => (a.connector_id < b.connector_id ? -1 : 1)) })
    },
  }),
  getConnector: get('/connectors/{connector_id}', {
    summary: 'Get one connector with the contract of every operation',
    role: 'reader',
    params,
    answers: { 200: ['The connector.', connectorDetailView] },
    problems: [404],
    handle: ({ deps, workspaceId, params: { connector_id } }) =>
      shown(find(deps, connector_id), async (definition) =>
        toConnectorDetailView(
          await approvedDefinition(deps.db, definition, workspaceId),
          !deps.connectors.isOpen(definition.name),
        ),
      ),
  }),
  listInvocations: list('/connectors/{connector_id}/invocations', {
    summary: 'List the calls of a connector in this workspace, newest first',
    role: 'reader',
    allow: ({ deps, params: { connector_id } }) => find(deps, connector_id),
    query: {
      status: z.enum(['started', 'succeeded', 'failed']).optional().meta({ example: 'failed' }),
      command_id: idField('command').optional().meta({ description: 'Only calls of this command.' }),
    },
    params,
    page: [pageView(invocationView, 'ConnectorInvocationPage'), 'A page of calls.'],
    problems: [404],
    scope: ({ workspaceId, params: { connector_id }, query: { status = null, command_id = null } }) => [
      workspaceId,
      connector_id,
      status,
      command_id,
    ],
    async read({ deps, workspaceId, params: { connector_id }, query }, after, limit) {
      const definition = find(deps, connector_id)
      if (!definition.ok) return definition
      const { status, command_id: commandId } = query
      const asked = { workspaceId, connectorName: definition.value.name, status, commandId, after, limit }
      const { items, next } = await listInvocations(deps.db, asked)
      return accept({ items: items.map(toInvocationView), next })
    },
  }),
  listConnectorDefinitions: get('/connectors/{connector_id}/definitions', {
    summary: 'List the definitions that the provider last published, with their approval',
    role: 'reader',
    params,
    answers: { 200: ['The definitions.', definitionList] },
    problems: [404],
    handle: ({ deps, workspaceId, params: { connector_id } }) =>
      shown(find(deps, connector_id), async ({ name }) => ({
        items: (await listDefinitions(deps.db, workspaceId, name)).map(toDefinitionView),
      })),
  }),
  checkConnectorDefinitions: post('/connectors/{connector_id}/definitions/check', {
    summary: 'Read the current definitions from the provider; calls no operation',
    role: 'admin',
    params,
    answers: { 200: ['The definitions.', definitionList] },
    problems: [404, ...bodyProblems, 503],
    handle({ deps, workspaceId, traceId, signal, params: { connector_id } }) {
      const definition = find(deps, connector_id)
      if (!definition.ok) return definition
      const checked = deps.connectors.check(definition.value.name, { workspaceId, traceId, signal })
      return shown(checked, (items) => ({ items: items.map(toDefinitionView) }))
    },
  }),
  approveConnectorDefinition: post('/connectors/{connector_id}/definitions/{operation}/approve', {
    summary: 'Approve the definition of an operation by its hash',
    role: 'admin',
    params: { connector_id: connectorId, operation: connectorId },
    body: [
      z
        .strictObject({ hash: textField(100, { charsMin: 1 }).meta({ example: 'sha256:9f86…' }) })
        .meta({ id: 'ApproveConnectorDefinition' }),
      'The definition',
    ],
    answers: { 200: ['The approved definition.', definitionView] },
    problems: [404, 409],
    handle({ deps, workspaceId, principal, traceId, params: { connector_id, operation }, body: { hash } }) {
      const definition = find(deps, connector_id)
      if (!definition.ok) return definition
      const input = { workspaceId, operation, hash, principal, traceId }
      return shown(approveDefinition(deps, definition.value, input), toDefinitionView)
    },
  }),
})
