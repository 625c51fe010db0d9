/** Approvals: the inbox, one approval with its packet, and the decision. GET never decides. */
import { z } from '@hono/zod-openapi'
import { idField, pageView, textField } from '#contract'
import {
  approvalDetailView,
  approvalStatus,
  type ApprovalDeps,
  approvalView,
  decideApproval,
  findStanding,
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
import { findOrigins, listNames } from '#domains/identity'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { accept } from '#kernel/refusal'
import { type Call, resource, routes, shown } from './resource.ts'

type Api = { readonly approvals: ApprovalDeps }

const { list, get, post } = resource<Api>('approvals')

const params = { approval_id: idField('approval') }

async function around(
  { deps, workspaceId, principal: { orgId, userId } }: Pick<Call<Api>, 'deps' | 'workspaceId' | 'principal'>,
  seen: readonly StoredApproval[],
) {
  const { db } = deps.approvals
  const standings = await findStanding(db, seen)
  const names = await listNames(db, orgId, personsNamed(seen, standings))
  return { standings, names, origins: await findOrigins(db, userId, workspaceId) }
}

export const approvalRoutes = routes({
  listApprovals: list('/approvals', {
    summary: 'List pending approvals by deadline, or decided ones newest first',
    role: 'reader',
    query: {
      mine: z.enum(['true', 'false']).optional().meta({
        example: 'true',
        description:
          'Only approvals that you can decide now; for administrators also those without an eligible approver (`blocked_by`).',
      }),
      status: z
        .union([approvalStatus, z.literal('all')])
        .optional()
        .meta({ example: 'pending', default: 'pending' }),
      approval_type: textField(200)
        .optional()
        .meta({ example: 'command_approval', description: 'Only approvals of this type.' }),
      command_id: idField('command').optional().meta({ description: 'Only approvals of this command.' }),
    },
    page: [pageView(approvalView, 'ApprovalPage'), 'A page of approvals.'],
    problems: [404],
    scope: ({ workspaceId, principal, query: { mine, status = 'pending', approval_type, command_id } }) => [
      workspaceId,
      principal.userId,
      String(mine === 'true'),
      status,
      approval_type ?? null,
      command_id ?? null,
    ],
    async read({ deps, workspaceId, principal, query }, after, limit) {
      const mine = query.mine === 'true'
      const origins = await findOrigins(deps.approvals.db, principal.userId, workspaceId)
      const { items, next } = await listApprovals(
        deps.approvals.db,
        { ...principal, origins },
        {
          workspaceId,
          mine,
          // Administrators can change who may decide, so they also see approvals without an eligible approver.
          alsoBlocked: mine && principal.role === 'admin',
          status: query.status ?? 'pending',
          approvalType: query.approval_type,
          commandId: query.command_id,
          after,
          limit,
        },
      )
      const more = await around({ deps, workspaceId, principal }, items)
      return accept({ items: items.map((approval) => toApprovalView(approval, principal, more)), next })
    },
  }),
  getApproval: get('/approvals/{approval_id}', {
    summary: 'Get one approval with everything needed to decide',
    role: 'reader',
    params,
    answers: { 200: ['The approval.', approvalDetailView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, principal, params: { approval_id } }) =>
      shown(getApproval(deps.approvals.db, workspaceId, approval_id), async (approval) =>
        toApprovalDetailView(approval, principal, await around({ deps, workspaceId, principal }, [approval])),
      ),
  }),
  decideApproval: post('/approvals/{approval_id}/resolve', {
    summary: 'Decide an approval, once and before its deadline, as an eligible approver',
    role: 'writer',
    params,
    body: [resolveApprovalBody, 'The decision'],
    answers: { 200: ['The decided approval.', resolvedApprovalView] },
    problems: [404, 409],
    handle({ deps, workspaceId, principal, traceId, params: { approval_id: approvalId }, body }) {
      const { decision, reason, payload_hash: payloadHash } = body
      // The body guard accepts only JSON.
      const edits = body.edits as JsonObject | undefined
      const input = { workspaceId, approvalId, decision, reason, payloadHash, edits }
      return shown(decideApproval(deps.approvals, byPerson(principal, traceId), input), async ({ approval, next }) =>
        toResolvedApprovalView(approval, principal, await around({ deps, workspaceId, principal }, [approval]), next),
      )
    },
  }),
})
