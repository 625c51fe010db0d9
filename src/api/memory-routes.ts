/**
 * Memory: search, propose, decide candidates, grant and revoke consents, forget and hold. Every read is recorded, and every
 * proposal becomes a governed command.
 */
import { idField, pageFields, pageView, textField } from '#contract'
import type { ApprovalDeps } from '#domains/approvals'
import { actingFor, type CommandDeps, decideCandidate, proposeMemory, requestForget } from '#domains/commands'
import {
  candidateDetailView,
  candidateStatus,
  candidateView,
  consentListView,
  consentView,
  decideCandidateBody,
  erasureView,
  forgetBody,
  forgetPreviewView,
  getCandidate,
  getErasure,
  grantConsent,
  grantConsentBody,
  holdListView,
  holdView,
  listCandidates,
  listConsents,
  listHolds,
  type MemoryDeps,
  memoryListView,
  memoryType,
  memoryView,
  placeHold,
  placeHoldBody,
  previewForget,
  previewForgetBody,
  proposedView,
  proposeMemoryBody,
  readMemory,
  releaseHold,
  revokeConsent,
  searchMemory,
  subjectField,
  toCandidateView,
  toConsentView,
  toErasureView,
  toForgetPreviewView,
  toHoldView,
  toMemoryView,
  seesSubject,
  viewerOf,
} from '#domains/memory'
import type { JsonObject } from '#kernel/json-value'
import { PAGE_LIMIT_DEFAULT } from '#kernel/page-limit'
import { accept } from '#kernel/refusal'
import { type Call, resource, routes, shown } from './resource.ts'
import { byPerson } from '#kernel/actor'

type Api = { readonly memory: MemoryDeps; readonly commands: CommandDeps; readonly approvals: ApprovalDeps }

const { list, get, post } = resource<Api>('memory')

const label = (example: string, description: string) =>
  textField(200, { charsMin: 1 }).optional().meta({ example, description })
const candidate = { memory_candidate_id: idField('memory_candidate') }

type Asked = Pick<Call<Api>, 'deps' | 'principal' | 'workspaceId' | 'traceId'>

const actorOf = ({ principal, traceId }: Asked) => actingFor(principal, traceId)

function showCandidate(call: Asked, candidateId: string) {
  const ref = { workspaceId: call.workspaceId, candidateId }
  return shown(getCandidate(call.deps.memory, actorOf(call), ref), (found) => ({
    ...toCandidateView(found.candidate),
    consents: found.consents.map(toConsentView),
  }))
}

/** A person's decision about a candidate. */
const decide = (verb: 'approve' | 'reject', decision: 'approved' | 'rejected', summary: string) =>
  post(`/memory/candidates/{memory_candidate_id}/${verb}`, {
    summary,
    role: 'writer',
    params: candidate,
    body: [decideCandidateBody, 'The reason'],
    answers: { 200: ['The candidate.', candidateDetailView] },
    problems: [404, 409],
    async handle(call) {
      const { workspaceId } = call
      const candidateId = call.params.memory_candidate_id
      // A candidate about another person is reported as not found, so that its existence stays private.
      const known = await showCandidate(call, candidateId)
      if (!known.ok) return known
      const input = { workspaceId, candidateId, reason: call.body.reason, decision }
      const { commands, approvals } = call.deps
      const decided = await decideCandidate(commands, approvals, byPerson(call.principal, call.traceId), input)
      return decided.ok ? showCandidate(call, candidateId) : decided
    },
  })

export const memoryRoutes = routes({
  searchMemory: get('/memory', {
    summary: 'Search memories by subject, task type, connector or text; the read is recorded',
    role: 'reader',
    query: {
      limit: pageFields.limit,
      subject: subjectField().optional(),
      memory_type: memoryType.optional(),
      task_type: label('book_trip', 'Only memories for this task type.'),
      connector: label('hotel_booking', 'Only memories for this connector.'),
      q: textField(1_000, { charsMin: 1 })
        .optional()
        .meta({ example: 'quiet room', description: 'Words to search for.' }),
    },
    answers: { 200: ['The memories found.', memoryListView] },
    problems: [400, 404],
    async handle(call) {
      const { subject, memory_type, task_type: taskType, connector, q: text, limit = PAGE_LIMIT_DEFAULT } = call.query
      const memoryTypes = memory_type === undefined ? undefined : [memory_type]
      const asked = { workspaceId: call.workspaceId, subject, memoryTypes, taskType, connector, text, limit }
      const items = await searchMemory(call.deps.memory, actorOf(call), asked)
      return accept({ items: items.map(toMemoryView), truncated: items.at(-1)?.has_next ?? false })
    },
  }),
  readMemory: get('/memory/records/{memory_id}', {
    summary: 'Get one memory in any state; the read is recorded',
    role: 'reader',
    params: { memory_id: idField('memory') },
    answers: { 200: ['The memory.', memoryView] },
    problems: [400, 404],
    handle: (call) =>
      shown(
        readMemory(call.deps.memory, actorOf(call), {
          workspaceId: call.workspaceId,
          memoryId: call.params.memory_id,
        }),
        toMemoryView,
      ),
  }),
  proposeMemory: post('/memory', {
    summary: 'Propose a memory: it is stored, waits for a decision, or is refused',
    role: 'writer',
    body: [proposeMemoryBody, 'The memory'],
    answers: { 202: ['The candidate.', proposedView] },
    problems: [404, 409],
    handle({ deps, principal, workspaceId, traceId, requestId, body }) {
      const { subject, content, idempotency_key: idempotencyKey, ...rest } = body
      // The body guard accepts only JSON.
      const memory = { ...rest, ...subject, content: content as JsonObject }
      const input = { workspaceId, memory, idempotencyKey, requestId }
      const proposed = proposeMemory(deps.commands, deps.memory, actingFor(principal, traceId), input)
      return shown(proposed, ({ candidate: made, isNew }) => ({ ...toCandidateView(made), is_new: isNew }))
    },
  }),
  listMemoryCandidates: list('/memory/candidates', {
    summary: 'List the memory candidates, newest first',
    role: 'reader',
    query: { status: candidateStatus.optional() },
    page: [pageView(candidateView, 'MemoryCandidatePage'), 'A page.'],
    problems: [404],
    scope: (call) => [call.workspaceId, viewerOf(call) ?? null, call.query.status ?? null],
    async read(call, after, limit) {
      const asked = { workspaceId: call.workspaceId, status: call.query.status, after, limit }
      const { items, next } = await listCandidates(call.deps.memory, actorOf(call), asked)
      return accept({ items: items.map(toCandidateView), next })
    },
  }),
  getMemoryCandidate: get('/memory/candidates/{memory_candidate_id}', {
    summary: 'Get one candidate with the consents of its subject',
    role: 'reader',
    params: candidate,
    answers: { 200: ['The candidate.', candidateDetailView] },
    problems: [400, 404],
    handle: (call) => showCandidate(call, call.params.memory_candidate_id),
  }),
  approveMemoryCandidate: decide('approve', 'approved', 'Approve a candidate; the same as in the inbox'),
  rejectMemoryCandidate: decide('reject', 'rejected', 'Reject a candidate; the same as in the inbox'),
  listMemoryConsents: get('/memory/consents', {
    summary: 'List consents, active or revoked; those of other users only for administrators and data owners',
    role: 'reader',
    query: { limit: pageFields.limit, subject: subjectField().optional() },
    answers: { 200: ['The consents.', consentListView] },
    problems: [400, 404],
    async handle(call) {
      const { subject, limit = PAGE_LIMIT_DEFAULT } = call.query
      const asked = { workspaceId: call.workspaceId, subject, viewer: viewerOf(call), limit }
      return accept({ items: (await listConsents(call.deps.memory.db, asked)).map(toConsentView) })
    },
  }),
  grantMemoryConsent: post('/memory/consents', {
    summary: 'Grant consent to remember a type of memory about a subject',
    role: 'writer',
    body: [grantConsentBody, 'The consent'],
    answers: { 201: ['The consent.', consentView] },
    problems: [404, 409],
    handle(call) {
      const { subject, ...to } = call.body
      const input = { workspaceId: call.workspaceId, ...subject, ...to }
      return shown(grantConsent(call.deps.memory, actorOf(call), input), toConsentView)
    },
  }),
  revokeMemoryConsent: post('/memory/consents/{memory_consent_id}/revoke', {
    summary: 'Revoke a consent; existing memories stay until they are erased',
    role: 'writer',
    params: { memory_consent_id: idField('memory_consent') },
    answers: { 200: ['The consent.', consentView] },
    problems: [400, 404, 409],
    handle(call) {
      const ref = { workspaceId: call.workspaceId, consentId: call.params.memory_consent_id }
      return shown(revokeConsent(call.deps.memory, actorOf(call), ref), toConsentView)
    },
  }),
  previewForget: post('/memory/forget/preview', {
    summary: 'Preview what an erasure would cover, without its content; nothing is changed',
    role: 'writer',
    body: [previewForgetBody, 'The subject'],
    answers: { 200: ['The preview.', forgetPreviewView] },
    problems: [404],
    async handle(call) {
      const { deps, workspaceId } = call
      const { subject } = call.body
      const rights = { seesSubject: seesSubject(call, subject), seesReason: viewerOf(call) === undefined }
      return accept(toForgetPreviewView(subject, await previewForget(deps.memory, workspaceId, subject), rights))
    },
  }),
  requestForget: post('/memory/forget', {
    summary: 'Request the erasure of everything about a subject; it runs after an approval',
    role: 'writer',
    body: [forgetBody, 'The subject'],
    answers: { 202: ['The request.', erasureView] },
    problems: [404, 409],
    handle({ deps, principal, workspaceId, traceId, requestId, body }) {
      const { subject, idempotency_key: idempotencyKey } = body
      const input = { workspaceId, subject, idempotencyKey, requestId }
      const asked = requestForget(deps.commands, deps.memory, actingFor(principal, traceId), input)
      return shown(asked, ({ erasure }) => toErasureView(erasure))
    },
  }),
  getMemoryErasure: get('/memory/erasures/{memory_erasure_id}', {
    summary: 'Get an erasure request, with its certificate once it is done',
    role: 'reader',
    params: { memory_erasure_id: idField('memory_erasure') },
    answers: { 200: ['The erasure.', erasureView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, params: { memory_erasure_id: erasureId } }) =>
      shown(getErasure(deps.memory.db, { workspaceId, erasureId }), toErasureView),
  }),
  listMemoryHolds: get('/memory/holds', {
    summary: 'List the holds on a subject, active or released',
    role: 'reader',
    query: { subject: subjectField() },
    answers: { 200: ['The holds.', holdListView] },
    problems: [400, 404],
    async handle(call) {
      const holds = await listHolds(call.deps.memory.db, call.workspaceId, call.query.subject)
      return accept({ items: holds.map((hold) => toHoldView(hold, viewerOf(call) === undefined)) })
    },
  }),
  placeMemoryHold: post('/memory/holds', {
    summary: 'Place a hold that prevents the erasure of a subject',
    role: 'admin',
    body: [placeHoldBody, 'The hold'],
    answers: { 201: ['The hold.', holdView] },
    problems: [404],
    handle: (call) =>
      shown(placeHold(call.deps.memory, actorOf(call), { workspaceId: call.workspaceId, ...call.body }), (hold) =>
        toHoldView(hold, true),
      ),
  }),
  releaseMemoryHold: post('/memory/holds/{memory_hold_id}/release', {
    summary: 'Release a hold',
    role: 'admin',
    params: { memory_hold_id: idField('memory_hold') },
    answers: { 200: ['The hold.', holdView] },
    problems: [400, 404],
    handle: (call) =>
      shown(
        releaseHold(call.deps.memory, actorOf(call), {
          workspaceId: call.workspaceId,
          holdId: call.params.memory_hold_id,
        }),
        (hold) => toHoldView(hold, true),
      ),
  }),
})
