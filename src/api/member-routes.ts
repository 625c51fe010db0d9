/** Who may enter a workspace, and the record of the whole organisation: for its administrators. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields } from '#contract'
import { countArchiveFiles, listAudit, toEventView } from '#domains/commands'
import { addMember, addMemberBody, changedView, decideUnbound, removeMember } from '#domains/identity'
import type { ApiDeps } from './api-deps.ts'
import { auditPageOf } from './audit-routes.ts'
import { openPageCursors } from './page-cursor.ts'
import { readPage } from './read-page.ts'
import { principalOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, newRouter, problems, queryOf, refused } from './route-kit.ts'

const administers = headOf('identity', needs('admin', 'org'))
const audits = headOf('audit', needs('admin', 'org'))

const params = z.object({ workspace: idField('workspace') })

const postMember = createRoute({
  ...administers(
    'post',
    '/workspaces/{workspace}/members',
    'addMember',
    'Let somebody enter a workspace: they get its access role',
  ),
  request: { query: queryOf({}), params, body: jsonBody(addMemberBody, 'The person') },
  responses: { 200: jsonAnswer(changedView, 'Whether they were out.'), ...problems(404, 409, ...bodyProblems) },
})

const deleteMember = createRoute({
  ...administers(
    'delete',
    '/workspaces/{workspace}/members/{user_id}',
    'removeMember',
    'Let somebody enter a workspace no more: they lose its access role',
  ),
  request: {
    query: queryOf({}),
    params: params.extend({ user_id: idField('user') }),
  },
  responses: { 200: jsonAnswer(changedView, 'Whether they were in.'), ...problems(404, 409, ...bodyProblems) },
})

const getOrgAudit = createRoute({
  ...audits(
    'get',
    '/org/audit',
    'listOrgAudit',
    'People, roles and unbound keys of your organisation: who changed what, newest first',
  ),
  request: {
    query: queryOf({ ...pageFields, event_type: z.string().max(100).optional().meta({ example: 'api_key_created' }) }),
  },
  responses: { 200: jsonAnswer(auditPageOf('OrgAuditPage'), 'A page of the audit.'), ...problems(400, 422) },
})

export function memberRoutes(deps: ApiDeps) {
  const cursors = openPageCursors(deps.cursorKey)
  return newRouter()
    .openapi(postMember, async (c) => {
      const membership = { workspaceId: c.req.valid('param').workspace, userId: c.req.valid('json').user_id }
      const added = await addMember(deps, principalOf(c), c.get('ids').traceId, membership)
      return added.ok ? c.json(added.value, 200) : refused(c, added)
    })
    .openapi(deleteMember, async (c) => {
      const { workspace: workspaceId, user_id: userId } = c.req.valid('param')
      const removed = await removeMember(deps, principalOf(c), c.get('ids').traceId, { workspaceId, userId })
      return removed.ok ? c.json(removed.value, 200) : refused(c, removed)
    })
    .openapi(getOrgAudit, async (c) => {
      const principal = principalOf(c)
      const unbound = decideUnbound(principal)
      if (!unbound.ok) return refused(c, unbound)
      const query = c.req.valid('query')
      const { event_type: eventType } = query
      const page = await readPage(cursors, query, {
        scope: ['listOrgAudit', principal.orgId, eventType ?? null],
        // The facts of a whole organisation stand under its own id, which no workspace has.
        read: (beforeSeq, limit) => listAudit(deps.db, principal.orgId, { eventType, beforeSeq, limit }),
        view: toEventView,
        position: ({ seq }) => seq,
      })
      if (!page.ok) return refused(c, page)
      return c.json({ ...page.value, archived_files: await countArchiveFiles(deps.db, principal.orgId) }, 200)
    })
}
