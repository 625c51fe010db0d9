/** What waits to be remembered, with the consent of its subject, and the yes or no of a person; and the consents themselves. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView } from '#contract'
import { decideCandidate } from '#domains/commands'
import type { ApprovalDeps } from '#domains/approvals'
import {
  candidateDetailView,
  candidateStatus,
  candidateView,
  consentListView,
  consentView,
  decideCandidateBody,
  decideConsent,
  getCandidate,
  getConsent,
  grantConsent,
  grantConsentBody,
  listCandidates,
  listConsents,
  type MemoryDeps,
  revokeConsent,
  subjectField,
  toCandidateView,
  toConsentView,
} from '#domains/memory'
import { accept } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import { actIn, viewerOf } from './memory-reader.ts'
import { openPageCursors } from './page-cursor.ts'
import { type ApiContext, principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'

const params = z.object({ memory_candidate_id: idField('memory_candidate') })
const reads = headOf('memory', needs('reader'))
const writes = headOf('memory', needs('writer'))

const getCandidates = createRoute({
  ...reads('get', '/memory/candidates', 'listMemoryCandidates', 'What was proposed for memory, newest first'),
  request: { query: queryOf({ ...pageFields, status: candidateStatus.optional() }) },
  responses: { 200: jsonAnswer(pageView(candidateView, 'MemoryCandidatePage'), 'A page.'), ...problems(400, 404, 422) },
})

const getOneCandidate = createRoute({
  ...reads(
    'get',
    '/memory/candidates/{memory_candidate_id}',
    'getMemoryCandidate',
    'One candidate with what its subject agreed to',
  ),
  request: { query: queryOf({}), params },
  responses: { 200: jsonAnswer(candidateDetailView, 'The candidate.'), ...problems(400, 404, 422) },
})

const decision = (verb: 'approve' | 'reject', operationId: string, summary: string) =>
  ({
    ...writes('post', `/memory/candidates/{memory_candidate_id}/${verb}`, operationId, summary),
    request: { query: queryOf({}), params, body: jsonBody(decideCandidateBody, 'The reason') },
    responses: { 200: jsonAnswer(candidateDetailView, 'The candidate.'), ...problems(404, 409, ...bodyProblems) },
  }) as const
const postApprove = createRoute(decision('approve', 'approveMemoryCandidate', 'Say yes: the same as in the inbox'))
const postReject = createRoute(decision('reject', 'rejectMemoryCandidate', 'Say no: the same as in the inbox'))

const getConsents = createRoute({
  ...reads(
    'get',
    '/memory/consents',
    'listMemoryConsents',
    'Who agreed to what, standing or taken back; those of other users are for administrators and data owners',
  ),
  request: { query: queryOf({ limit: pageFields.limit, subject: subjectField().optional() }) },
  responses: { 200: jsonAnswer(consentListView, 'Consents.'), ...problems(400, 404, 422) },
})

const postConsent = createRoute({
  ...writes(
    'post',
    '/memory/consents',
    'grantMemoryConsent',
    'Agree that something of a kind may be remembered about a subject',
  ),
  request: { query: queryOf({}), body: jsonBody(grantConsentBody, 'What is agreed to') },
  responses: { 201: jsonAnswer(consentView, 'The consent.'), ...problems(404, 409, ...bodyProblems) },
})

const postRevoke = createRoute({
  ...writes(
    'post',
    '/memory/consents/{memory_consent_id}/revoke',
    'revokeMemoryConsent',
    'Take a consent back; what is remembered stays until it is forgotten',
  ),
  request: { query: queryOf({}), params: z.object({ memory_consent_id: idField('memory_consent') }) },
  responses: { 200: jsonAnswer(consentView, 'The consent.'), ...problems(400, 404, 409, 422) },
})

export type MemoryCandidateDeps = Pick<ApiDeps, 'cursorKey'> & {
  readonly approvals: ApprovalDeps
  readonly memory: MemoryDeps
}

export function memoryCandidateRoutes({ approvals, memory, cursorKey }: MemoryCandidateDeps) {
  const cursors = openPageCursors(cursorKey)
  const shown = async (c: ApiContext, candidateId: string) => {
    const ref = { workspaceId: workspaceOf(c).id, candidateId, viewer: viewerOf(c) }
    const found = await getCandidate(memory.db, ref)
    if (!found.ok) return found
    const { candidate, consents } = found.value
    return accept({ ...toCandidateView(candidate), consents: consents.map(toConsentView) })
  }
  const decide = async (c: ApiContext, candidateId: string, answer: 'approved' | 'rejected', reason?: string) => {
    // Of what is another person's own matter nobody else learns that it is there, nor how it stands.
    const known = await shown(c, candidateId)
    if (!known.ok) return known
    const input = { workspaceId: workspaceOf(c).id, candidateId, reason, traceId: c.get('ids').traceId }
    const decided = await decideCandidate(approvals, principalOf(c), { ...input, decision: answer })
    return decided.ok ? shown(c, candidateId) : decided
  }
  return newRouter()
    .openapi(getCandidates, async (c) => {
      const query = c.req.valid('query')
      const workspaceId = workspaceOf(c).id
      const viewer = viewerOf(c)
      const scope = ['listMemoryCandidates', workspaceId, viewer ?? null, query.status ?? null]
      const after = query.cursor === undefined ? undefined : cursors.open(scope, query.cursor)
      if (after && !after.ok) return refused(c, after)
      const status = query.status === undefined ? undefined : [query.status]
      const page = await listCandidates(memory.db, {
        workspaceId,
        status,
        viewer,
        after: after?.value,
        limit: limitOf(query),
      })
      const items = page.items.map(toCandidateView)
      return c.json({ items, next_cursor: page.next ? cursors.seal(scope, page.next) : null }, 200)
    })
    .openapi(getOneCandidate, async (c) => {
      const found = await shown(c, c.req.valid('param').memory_candidate_id)
      return found.ok ? c.json(found.value, 200) : refused(c, found)
    })
    .openapi(postApprove, async (c) => {
      const decided = await decide(c, c.req.valid('param').memory_candidate_id, 'approved', c.req.valid('json').reason)
      return decided.ok ? c.json(decided.value, 200) : refused(c, decided)
    })
    .openapi(postReject, async (c) => {
      const decided = await decide(c, c.req.valid('param').memory_candidate_id, 'rejected', c.req.valid('json').reason)
      return decided.ok ? c.json(decided.value, 200) : refused(c, decided)
    })
    .openapi(getConsents, async (c) => {
      const { subject, limit } = c.req.valid('query')
      const items = await listConsents(memory.db, {
        workspaceId: workspaceOf(c).id,
        subject,
        viewer: viewerOf(c),
        limit: limitOf({ limit }),
      })
      return c.json({ items: items.map(toConsentView) }, 200)
    })
    .openapi(postConsent, async (c) => {
      const { subject, ...to } = c.req.valid('json')
      const allowed = decideConsent(principalOf(c), subject)
      if (!allowed.ok) return refused(c, allowed)
      const input = { workspaceId: workspaceOf(c).id, ...subject, ...to }
      const given = await grantConsent(memory, actIn(c, memory.now), input)
      return given.ok ? c.json(toConsentView(given.value), 201) : refused(c, given)
    })
    .openapi(postRevoke, async (c) => {
      const [workspaceId, consentId] = [workspaceOf(c).id, c.req.valid('param').memory_consent_id]
      const known = await getConsent(memory.db, workspaceId, consentId)
      if (!known.ok) return refused(c, known)
      const allowed = decideConsent(principalOf(c), known.value)
      if (!allowed.ok) return refused(c, allowed)
      const revoked = await revokeConsent(memory, actIn(c, memory.now), { workspaceId, consentId })
      return revoked.ok ? c.json(toConsentView(revoked.value), 200) : refused(c, revoked)
    })
}
