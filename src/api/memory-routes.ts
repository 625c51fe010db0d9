/** Remember, look up and show: what is handed out is on record, and what is proposed becomes a governed command. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields } from '#contract'
import { actingFor, type CommandDeps, proposeMemory } from '#domains/commands'
import {
  memoryListView,
  memoryType,
  memoryView,
  type MemoryDeps,
  proposedView,
  proposeMemoryBody,
  readMemory,
  searchMemory,
  subjectField,
  toCandidateView,
  toMemoryView,
} from '#domains/memory'
import type { JsonObject } from '#kernel/json-value'
import { readerOf } from './memory-reader.ts'
import { principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('memory', needs('reader'))
const writes = headOf('memory', needs('writer'))

const label = (example: string, description: string) =>
  z.string().min(1).max(200).optional().meta({ example, description })

const getMemory = createRoute({
  ...reads(
    'get',
    '/memory',
    'searchMemory',
    'What is remembered: by subject, task type, connector or text; the read is recorded',
  ),
  request: {
    query: queryOf({
      limit: pageFields.limit,
      subject: subjectField().optional(),
      memory_type: memoryType.optional(),
      task_type: label('book_trip', 'Only what helps with this kind of task.'),
      connector: label('hotel_booking', 'Only what helps with this connector.'),
      q: z.string().min(1).max(1_000).optional().meta({ example: 'quiet room', description: 'Words to find.' }),
    }),
  },
  responses: { 200: jsonAnswer(memoryListView, 'What was found.'), ...problems(400, 404, 422) },
})

const getOneMemory = createRoute({
  ...reads('get', '/memory/records/{memory_id}', 'readMemory', 'One memory, in whatever state; the read is recorded'),
  request: { query: queryOf({}), params: z.object({ memory_id: idField('memory') }) },
  responses: { 200: jsonAnswer(memoryView, 'The memory.'), ...problems(400, 404, 422) },
})

const postMemory = createRoute({
  ...writes(
    'post',
    '/memory',
    'proposeMemory',
    'Propose something to remember: written at once, put to a person, or refused',
  ),
  request: { query: queryOf({}), body: jsonBody(proposeMemoryBody, 'What to remember') },
  responses: { 202: jsonAnswer(proposedView, 'The candidate.'), ...problems(404, 409, ...bodyProblems) },
})

export function memoryRoutes(commands: CommandDeps, memory: MemoryDeps) {
  return newRouter()
    .openapi(getMemory, async (c) => {
      const { subject, memory_type, task_type, connector, q, limit } = c.req.valid('query')
      const found = await searchMemory(memory, readerOf(c), {
        workspaceId: workspaceOf(c).id,
        subject,
        memoryTypes: memory_type === undefined ? undefined : [memory_type],
        taskType: task_type,
        connector,
        text: q,
        limit: limitOf({ limit }),
      })
      return found.ok ? c.json({ items: found.value.map(toMemoryView) }, 200) : refused(c, found)
    })
    .openapi(getOneMemory, async (c) => {
      const ref = { workspaceId: workspaceOf(c).id, memoryId: c.req.valid('param').memory_id }
      const found = await readMemory(memory, readerOf(c), ref)
      return found.ok ? c.json(toMemoryView(found.value), 200) : refused(c, found)
    })
    .openapi(postMemory, async (c) => {
      const { subject, content, idempotency_key, ...rest } = c.req.valid('json')
      const { requestId, traceId } = c.get('ids')
      const proposed = await proposeMemory(commands, memory, actingFor(principalOf(c), traceId), {
        workspaceId: workspaceOf(c).id,
        // The guard in front of every body has let nothing through but JSON.
        memory: { ...rest, ...subject, content: content as JsonObject },
        idempotencyKey: idempotency_key,
        requestId,
      })
      if (!proposed.ok) return refused(c, proposed)
      return c.json({ ...toCandidateView(proposed.value.candidate), is_new: proposed.value.isNew }, 202)
    })
}
