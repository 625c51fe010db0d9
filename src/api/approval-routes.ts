/** What waits for a person: the inbox, one approval with its packet, and the decision. GET never decides. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView } from '#contract'
import {
  approvalDetailView,
  approvalStatus,
  type ApprovalDeps,
  approvalView,
  decideApproval,
  findBlocked,
  getApproval,
  listApprovals,
  personsNamed,
  resolveApprovalBody,
  resolvedApprovalView,
  type StoredApproval,
  toApprovalDetailView,
  toApprovalView,
  toResolvedApprovalView,
} from '#domains/approvals'
import { listNames } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import type { ApiDeps } from './api-deps.ts'
import { openPageCursors } from './page-cursor.ts'
import { type ApiContext, principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('approvals', needs('reader'))
const writes = headOf('approvals', needs('writer'))

const getApprovals = createRoute({
  ...reads(
    'get',
    '/approvals',
    'listApprovals',
    'What waits for a decision, by deadline; or what was decided, newest first',
  ),
  request: {
    query: queryOf({
      ...pageFields,
      mine: z.enum(['true', 'false']).optional().meta({
        example: 'true',
        description: 'Only what you can decide now; for administrators also what nobody can (`blocked_by`).',
      }),
      status: z
        .union([approvalStatus, z.literal('all')])
        .optional()
        .meta({ example: 'pending', default: 'pending' }),
      approval_type: z.string().optional().meta({ example: 'command_approval', description: 'Only of this kind.' }),
      command_id: idField('command').optional().meta({ description: 'Only of this command.' }),
    }),
  },
  responses: {
    200: jsonAnswer(pageView(approvalView, 'ApprovalPage'), 'A page of approvals.'),
    ...problems(400, 404, 422),
  },
})

const getOneApproval = createRoute({
  ...reads('get', '/approvals/{approval_id}', 'getApproval', 'One approval with everything needed to decide'),
  request: { query: queryOf({}), params: z.object({ approval_id: idField('approval') }) },
  responses: { 200: jsonAnswer(approvalDetailView, 'The approval.'), ...problems(400, 404, 422) },
})

const postResolve = createRoute({
  ...writes(
    'post',
    '/approvals/{approval_id}/resolve',
    'decideApproval',
    'Decide: once, in time, as one of those who were asked',
  ),
  request: {
    query: queryOf({}),
    params: z.object({ approval_id: idField('approval') }),
    body: jsonBody(resolveApprovalBody, 'The decision'),
  },
  responses: {
    200: jsonAnswer(resolvedApprovalView, 'The approval after it.'),
    ...problems(404, 409, ...bodyProblems),
  },
})

export type ApprovalRouteDeps = Pick<ApiDeps, 'cursorKey'> & { readonly approvals: ApprovalDeps }

export function approvalRoutes({ approvals: world, cursorKey }: ApprovalRouteDeps) {
  const cursors = openPageCursors(cursorKey)
  const around = async (c: ApiContext, shown: readonly StoredApproval[]) => ({
    names: await listNames(world.db, principalOf(c).orgId, personsNamed(shown)),
    blocked: await findBlocked(world.db, shown),
  })
  return newRouter()
    .openapi(getApprovals, async (c) => {
      const [principal, workspace, query] = [principalOf(c), workspaceOf(c), c.req.valid('query')]
      const mine = query.mine === 'true'
      const status = query.status ?? 'pending'
      const filters = [String(mine), status, query.approval_type ?? null, query.command_id ?? null]
      const scope = ['listApprovals', workspace.id, principal.userId, ...filters]
      const after = query.cursor === undefined ? undefined : cursors.open(scope, query.cursor)
      if (after && !after.ok) return refused(c, after)
      const page = await listApprovals(world.db, principal, {
        workspaceId: workspace.id,
        mine,
        // Who can change who may decide is told what nobody can.
        alsoBlocked: mine && principal.role === 'admin',
        status,
        approvalType: query.approval_type,
        commandId: query.command_id,
        after: after?.value,
        limit: limitOf(query),
      })
      const more = await around(c, page.items)
      const items = page.items.map((approval) => toApprovalView(approval, principal, more))
      return c.json({ items, next_cursor: page.next ? cursors.seal(scope, page.next) : null }, 200)
    })
    .openapi(getOneApproval, async (c) => {
      const found = await getApproval(world.db, workspaceOf(c).id, c.req.valid('param').approval_id)
      if (!found.ok) return refused(c, found)
      return c.json(toApprovalDetailView(found.value, principalOf(c), await around(c, [found.value])), 200)
    })
    .openapi(postResolve, async (c) => {
      const principal = principalOf(c)
      const body = c.req.valid('json')
      const decided = await decideApproval(world, principal, {
        workspaceId: workspaceOf(c).id,
        approvalId: c.req.valid('param').approval_id,
        decision: body.decision,
        reason: body.reason,
        payloadHash: body.payload_hash,
        // The guard in front of every body has let nothing through but JSON.
        edits: body.edits as JsonObject | undefined,
        traceId: c.get('ids').traceId,
      })
      if (!decided.ok) return refused(c, decided)
      const { approval, next } = decided.value
      return c.json(toResolvedApprovalView(approval, principal, await around(c, [approval]), next), 200)
    })
}
