/** Who am I, which workspaces may I enter, and which keys exist: the routes of the identity room. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView } from '#contract'
import {
  apiKeyView,
  byPrincipal,
  createApiKey,
  createApiKeyBody,
  createdApiKeyView,
  createWorkspace,
  createWorkspaceBody,
  decideUnbound,
  listApiKeys,
  listWorkspaces,
  meView,
  revokeApiKey,
  toApiKeyView,
  toMeView,
  toWorkspaceView,
  workspaceView,
} from '#domains/identity'
import type { ApiDeps } from './api-deps.ts'
import { openPageCursors } from './page-cursor.ts'
import { readPage } from './read-page.ts'
import { principalOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('identity', needs('reader', 'org'))
const administers = headOf('identity', needs('admin', 'org'))

const getMe = createRoute({
  ...reads('get', '/me', 'describeMe', 'Who am I, and what may I do?'),
  request: { query: queryOf({}) },
  responses: { 200: jsonAnswer(meView, 'You.'), ...problems(422) },
})

const getWorkspaces = createRoute({
  ...reads('get', '/workspaces', 'listWorkspaces', 'The workspaces that you may enter, by short name'),
  request: { query: queryOf(pageFields) },
  responses: {
    200: jsonAnswer(pageView(workspaceView, 'WorkspacePage'), 'A page of workspaces.'),
    ...problems(400, 422),
  },
})

const postWorkspace = createRoute({
  ...administers('post', '/workspaces', 'createWorkspace', 'Create a workspace that you own'),
  request: { query: queryOf({}), body: jsonBody(createWorkspaceBody, 'The workspace') },
  responses: { 201: jsonAnswer(workspaceView, 'The new workspace.'), ...problems(404, 409, ...bodyProblems) },
})

const getKeys = createRoute({
  ...administers(
    'get',
    '/keys',
    'listApiKeys',
    'The API keys of your organisation, newest first, without their secrets',
  ),
  request: { query: queryOf(pageFields) },
  responses: { 200: jsonAnswer(pageView(apiKeyView, 'ApiKeyPage'), 'A page of keys.'), ...problems(400, 422) },
})

const postKey = createRoute({
  ...administers('post', '/keys', 'createApiKey', 'Create an API key; the answer shows it once'),
  request: { query: queryOf({}), body: jsonBody(createApiKeyBody, 'The key') },
  responses: { 201: jsonAnswer(createdApiKeyView, 'The key with its secret.'), ...problems(404, ...bodyProblems) },
})

const deleteKey = createRoute({
  ...administers('delete', '/keys/{key_id}', 'revokeApiKey', 'Revoke an API key at once'),
  request: {
    query: queryOf({}),
    params: z.object({ key_id: idField('api_key') }),
  },
  responses: { 200: jsonAnswer(apiKeyView, 'The key, revoked.'), ...problems(404, ...bodyProblems) },
})

export function identityRoutes(deps: ApiDeps) {
  const cursors = openPageCursors(deps.cursorKey)
  return newRouter()
    .openapi(getMe, (c) => c.json(toMeView(principalOf(c)), 200))
    .openapi(getWorkspaces, async (c) => {
      const principal = principalOf(c)
      const page = await readPage(cursors, c.req.valid('query'), {
        scope: ['listWorkspaces', principal.orgId, principal.userId],
        read: (afterSlug, limit) => listWorkspaces(deps, principal, { afterSlug, limit }),
        view: toWorkspaceView,
        position: ({ slug }) => slug,
      })
      return page.ok ? c.json(page.value, 200) : refused(c, page)
    })
    .openapi(postWorkspace, async (c) => {
      const principal = principalOf(c)
      const unbound = decideUnbound(principal)
      if (!unbound.ok) return refused(c, unbound)
      const { slug, name, access_role } = c.req.valid('json')
      const created = await createWorkspace(deps, byPrincipal(principal, c.get('ids').traceId), {
        orgId: principal.orgId,
        ownerUserId: principal.userId,
        slug,
        name,
        accessRole: access_role,
      })
      return created.ok ? c.json(toWorkspaceView(created.value), 201) : refused(c, created)
    })
    .openapi(getKeys, async (c) => {
      const principal = principalOf(c)
      const page = await readPage(cursors, c.req.valid('query'), {
        scope: ['listApiKeys', principal.orgId, principal.workspaceId],
        read: (beforeId, limit) => listApiKeys(deps, principal, { beforeId, limit }),
        view: toApiKeyView,
        position: ({ id }) => id,
      })
      return page.ok ? c.json(page.value, 200) : refused(c, page)
    })
    .openapi(postKey, async (c) => {
      const body = c.req.valid('json')
      const created = await createApiKey(deps, principalOf(c), c.get('ids').traceId, {
        name: body.name,
        role: body.role,
        workspaceId: body.workspace_id,
        expiresAt: body.expires_at,
      })
      if (!created.ok) return refused(c, created)
      return c.json({ ...toApiKeyView(created.value.stored), key: created.value.key }, 201)
    })
    .openapi(deleteKey, async (c) => {
      const revoked = await revokeApiKey(deps, principalOf(c), c.get('ids').traceId, c.req.valid('param').key_id)
      return revoked.ok ? c.json(toApiKeyView(revoked.value), 200) : refused(c, revoked)
    })
}
