/** Forgetting: what is known about a subject, the request to erase it, its certificate, and the holds that stop it. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField } from '#contract'
import { actingFor, type CommandDeps, requestForget } from '#domains/commands'
import {
  erasureView,
  forgetBody,
  forgetPreviewView,
  getErasure,
  holdListView,
  holdView,
  listHolds,
  type MemoryDeps,
  placeHold,
  placeHoldBody,
  previewForget,
  previewForgetBody,
  releaseHold,
  subjectField,
  toErasureView,
  toForgetPreviewView,
  toHoldView,
} from '#domains/memory'
import { actIn } from './memory-reader.ts'
import { principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('memory', needs('reader'))
const writes = headOf('memory', needs('writer'))
const administers = headOf('memory', needs('admin'))

const postPreview = createRoute({
  ...writes(
    'post',
    '/memory/forget/preview',
    'previewForget',
    'Everything that forgetting a subject would erase, without what it says; nothing is changed',
  ),
  request: { query: queryOf({}), body: jsonBody(previewForgetBody, 'Whom it would be about') },
  responses: { 200: jsonAnswer(forgetPreviewView, 'What is known.'), ...problems(404, ...bodyProblems) },
})

const postForget = createRoute({
  ...writes(
    'post',
    '/memory/forget',
    'requestForget',
    'Ask to erase everything about a subject; it happens after an approval',
  ),
  request: { query: queryOf({}), body: jsonBody(forgetBody, 'Whom to forget') },
  responses: { 202: jsonAnswer(erasureView, 'The request.'), ...problems(404, 409, ...bodyProblems) },
})

const getOneErasure = createRoute({
  ...reads(
    'get',
    '/memory/erasures/{memory_erasure_id}',
    'getMemoryErasure',
    'A request to forget, and its certificate once it was carried out',
  ),
  request: { query: queryOf({}), params: z.object({ memory_erasure_id: idField('memory_erasure') }) },
  responses: { 200: jsonAnswer(erasureView, 'The erasure.'), ...problems(400, 404, 422) },
})

const getHolds = createRoute({
  ...reads('get', '/memory/holds', 'listMemoryHolds', 'The holds on a subject, standing or released'),
  request: { query: queryOf({ subject: subjectField() }) },
  responses: { 200: jsonAnswer(holdListView, 'Holds.'), ...problems(400, 404, 422) },
})

const postHold = createRoute({
  ...administers(
    'post',
    '/memory/holds',
    'placeMemoryHold',
    'Keep what is known about a subject, whoever asks to forget it',
  ),
  request: { query: queryOf({}), body: jsonBody(placeHoldBody, 'What must be kept') },
  responses: { 201: jsonAnswer(holdView, 'The hold.'), ...problems(404, ...bodyProblems) },
})

const postRelease = createRoute({
  ...administers('post', '/memory/holds/{memory_hold_id}/release', 'releaseMemoryHold', 'End a hold'),
  request: { query: queryOf({}), params: z.object({ memory_hold_id: idField('memory_hold') }) },
  responses: { 200: jsonAnswer(holdView, 'The hold.'), ...problems(400, 404, 422) },
})

export function memoryForgetRoutes(commands: CommandDeps, memory: MemoryDeps) {
  return newRouter()
    .openapi(postPreview, async (c) => {
      const { subject } = c.req.valid('json')
      const preview = await previewForget(memory, workspaceOf(c).id, subject)
      return c.json(toForgetPreviewView(subject, preview), 200)
    })
    .openapi(postForget, async (c) => {
      const { subject, idempotency_key: idempotencyKey } = c.req.valid('json')
      const { requestId, traceId } = c.get('ids')
      const by = actingFor(principalOf(c), traceId)
      const input = { workspaceId: workspaceOf(c).id, subject, idempotencyKey, requestId }
      const asked = await requestForget(commands, memory, by, input)
      return asked.ok ? c.json(toErasureView(asked.value.erasure), 202) : refused(c, asked)
    })
    .openapi(getOneErasure, async (c) => {
      const ref = { workspaceId: workspaceOf(c).id, erasureId: c.req.valid('param').memory_erasure_id }
      const found = await getErasure(memory.db, ref)
      return found.ok ? c.json(toErasureView(found.value), 200) : refused(c, found)
    })
    .openapi(getHolds, async (c) => {
      const holds = await listHolds(memory.db, workspaceOf(c).id, c.req.valid('query').subject)
      return c.json({ items: holds.map(toHoldView) }, 200)
    })
    .openapi(postHold, async (c) => {
      const input = { workspaceId: workspaceOf(c).id, ...c.req.valid('json') }
      const placed = await placeHold(memory, actIn(c, memory.now), input)
      return placed.ok ? c.json(toHoldView(placed.value), 201) : refused(c, placed)
    })
    .openapi(postRelease, async (c) => {
      const input = { workspaceId: workspaceOf(c).id, holdId: c.req.valid('param').memory_hold_id }
      const released = await releaseHold(memory, actIn(c, memory.now), input)
      return released.ok ? c.json(toHoldView(released.value), 200) : refused(c, released)
    })
}
