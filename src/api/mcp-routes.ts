/** The Model Context Protocol behind the guards of the API, and this server as an OAuth resource (RFC 9728). */
import { z } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { textField } from '#contract'
import type { JsonObject } from '#kernel/json-value'
import { accept } from '#kernel/refusal'
import type { ApiDeps, OAuthResource } from './api-deps.ts'
import type { ApiEnv } from './guards.ts'
import { resource, routes } from './resource.ts'

const PATH = '/mcp'
const METADATA = '/.well-known/oauth-protected-resource'

const message = z
  .strictObject({
    jsonrpc: z.literal('2.0').meta({ example: '2.0' }),
    method: textField(200, { charsMin: 1 }).meta({ example: 'tools/list' }),
    id: z
      .union([textField(200), z.int()])
      .optional()
      .meta({ example: 1, description: 'Missing in a notification.' }),
    params: z.record(z.string(), z.unknown()).optional().meta({ example: {} }),
  })
  .meta({ id: 'McpMessage', description: 'A request or a notification of the Model Context Protocol.' })

const answer = z.looseObject({}).meta({ id: 'McpAnswer', description: 'An answer of the Model Context Protocol.' })

const { post } = resource<{ readonly mcp: NonNullable<ApiDeps['mcp']> }>('mcp')

export const mcpRoutes = routes({
  serveMcp: post(PATH, {
    summary: 'Serve the Model Context Protocol: the tools are the tasks that the caller may propose',
    description: 'Streamable HTTP without sessions: revision 2026-07-28 and earlier ones.',
    role: 'writer',
    agents: true,
    body: [message, 'The message'],
    answers: {
      200: ['The answer, as JSON or as the last of some server-sent events.', answer],
      202: ['A notification has no answer.'],
    },
    problems: [404],
    handle: ({ deps, c, sent, principal, workspaceId, traceId, requestId }) =>
      deps.mcp(c.req.raw, sent as JsonObject, { principal, workspaceId, traceId, requestId }),
  }),
})

const metadata = z
  .object({
    resource: z.string().meta({ example: 'https://concord.example.com/mcp' }),
    authorization_servers: z.array(z.string()).meta({ example: ['https://login.example.com'] }),
    bearer_methods_supported: z.array(z.string()).meta({ example: ['header'] }),
    resource_name: z.string().meta({ example: 'Concord' }),
  })
  .meta({ id: 'OAuthResource', description: 'This server as an OAuth resource (RFC 9728).' })

const { get } = resource<OAuthResource>('mcp', 'org')

const describeResource = (path: string) =>
  get(path, {
    summary: 'Get the identity provider whose tokens this server accepts',
    role: null,
    answers: { 200: ['The resource.', metadata] },
    handle: ({ deps }) =>
      accept({
        resource: deps.resource,
        authorization_servers: [deps.issuer],
        bearer_methods_supported: ['header'],
        resource_name: 'Concord',
      }),
  })

export const oauthResourceRoutes = routes({
  getOAuthResource: describeResource(METADATA),
  getMcpOAuthResource: describeResource(METADATA + PATH),
})

/** Tells a client without a valid credential where it finds the identity provider. */
export function mcpChallenge(known: OAuthResource | undefined): MiddlewareHandler<ApiEnv> {
  if (!known) return (_c, next) => next()
  const header = `Bearer realm="concord", resource_metadata="${new URL(METADATA + PATH, known.resource).href}"`
  return async (c, next) => {
    await next()
    if (c.req.path === PATH && c.res.status === 401) c.res.headers.set('www-authenticate', header)
  }
}
