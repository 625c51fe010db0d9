/** The output of a job over HTTP, as far as it is there or as it comes. */
import { createRoute, z } from '@hono/zod-openapi'
import { readLog } from '#domains/scheduler'
import { refuse } from '#kernel/refusal'
import type { ApiLimits } from './api-deps.ts'
import { bearerOf } from './caller.ts'
import { principalOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { newRouter, problems, queryOf, refused } from './route-kit.ts'
import { requireScheduler, jobParam, type SchedulerRouteDeps } from './scheduler-api.ts'

const LOG_HEADERS = { 'content-type': 'text/plain; charset=utf-8', 'x-accel-buffering': 'no' }

const getLogs = createRoute({
  method: 'get',
  path: '/scheduler/jobs/{job_id}/logs',
  operationId: 'readSchedulerLog',
  summary: 'The output of a job, or everything until it has ended',
  description: 'Jobs print what they should not, so reading it needs a writer.',
  tags: ['scheduler'],
  ...needs('writer', 'org'),
  request: {
    query: queryOf({
      follow: z
        .enum(['true', 'false'])
        .optional()
        .meta({ example: 'true', description: 'Go on until the job has ended.' }),
    }),
    params: jobParam,
  },
  responses: {
    200: { description: 'The output.', content: { 'text/plain': { schema: z.string() } } },
    ...problems(400, 404, 422),
  },
})

/** A description in text promises a string; a stream of one is the same for who reads it. */
const answered = (response: Response) => response as never

export function schedulerLogRoutes(
  deps: SchedulerRouteDeps,
  limits: Pick<ApiLimits, 'heartbeatMs' | 'streamsPerKeyMax'>,
) {
  const open = new Map<string, number>()
  return newRouter().openapi(getLogs, (c) => {
    const face = requireScheduler(c, deps)
    if (!face.ok) return refused(c, face)
    const { scheduler, wait } = face.value
    const owner = principalOf(c).keyId ?? principalOf(c).userId
    const count = open.get(owner) ?? 0
    if (count >= limits.streamsPerKeyMax) {
      return refused(c, refuse('api.streams.exceeded', `This key has ${count} streams open, which is the limit.`))
    }
    const bearer = bearerOf(c)
    const gone = new AbortController()
    const closing = deps.closing ? [deps.closing] : []
    let askAtMs = performance.now() + limits.heartbeatMs
    const log = readLog(scheduler, c.req.valid('param').job_id, {
      follow: c.req.valid('query').follow === 'true',
      stop: AbortSignal.any([gone.signal, c.req.raw.signal, ...closing]),
      // A credential that was revoked meanwhile ends the stream, as with events.
      wait: async (ms, signal) => {
        if (performance.now() >= askAtMs) {
          askAtMs = performance.now() + limits.heartbeatMs
          if (!bearer.ok || !(await deps.authenticate(bearer.value)).ok) gone.abort()
        }
        await wait(ms, signal)
      },
    })
    if (!log.ok) return refused(c, log)
    // A HEAD has no body, so no stream would ever be read to its end and closed.
    if (c.req.method === 'HEAD') return answered(c.body(null, 200, LOG_HEADERS))
    open.set(owner, count + 1)
    const close = () => {
      const left = (open.get(owner) ?? 1) - 1
      if (left > 0) open.set(owner, left)
      else open.delete(owner)
    }
    return answered(c.body(streamOf(log.value, gone, close), 200, LOG_HEADERS))
  })
}

/** Pulls a piece when the reader has taken the one before. */
function streamOf(
  source: AsyncGenerator<Uint8Array, void, undefined>,
  gone: AbortController,
  onClose: () => void,
): ReadableStream<Uint8Array> {
  let isOpen = true
  const finish = () => {
    if (isOpen) onClose()
    isOpen = false
  }
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await source.next()
        if (!isOpen) return
        if (!done) return controller.enqueue(value)
        controller.close()
        finish()
      } catch (error) {
        finish()
        controller.error(error)
      }
    },
    cancel() {
      gone.abort()
      finish()
    },
  })
}
