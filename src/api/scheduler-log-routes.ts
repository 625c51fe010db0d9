/** Reads or follows the output of a job over HTTP. */
import { z } from '@hono/zod-openapi'
import { readLog } from '#domains/scheduler'
import { rightOf } from './caller.ts'
import type { StreamPlace } from './event-stream.ts'
import { routes } from './resource.ts'
import { get, jobParam, requireScheduler } from './scheduler-api.ts'

const LOG_HEADERS = { 'content-type': 'text/plain; charset=utf-8', 'x-accel-buffering': 'no' }

export const schedulerLogRoutes = routes({
  readSchedulerLog: get('/scheduler/jobs/{job_id}/logs', {
    summary: 'Read the output of a job, or follow it until the job has ended',
    description: 'Output may contain secrets, so reading it requires a writer.',
    role: 'writer',
    query: {
      follow: z
        .enum(['true', 'false'])
        .optional()
        .meta({ example: 'true', description: 'Follow the output until the job has ended.' }),
    },
    params: jobParam,
    answers: { 200: ['The output.'] },
    content: { 'text/plain': { schema: z.string() } },
    problems: [400, 404],
    async handle(call) {
      const { deps, c, principal } = call
      const api = requireScheduler(call)
      if (!api.ok) return api
      const gone = new AbortController()
      const opened = deps.logStreams.open(principal, rightOf(deps, c))
      if (!opened.ok) return opened
      const place = opened.value
      let isStreaming = false
      try {
        let askAtMs = performance.now() + deps.heartbeatMs
        const log = readLog(api.value.scheduler, call.params.job_id, {
          follow: call.query.follow === 'true',
          stop: AbortSignal.any([gone.signal, call.signal, ...(deps.closing ? [deps.closing] : [])]),
          wait: async (ms, signal) => {
            if (performance.now() >= askAtMs) {
              askAtMs = performance.now() + deps.heartbeatMs
              await place.check()
            }
            await api.value.wait(ms, signal)
          },
        })
        if (!log.ok) return log
        // A HEAD has no body, so a stream would never be read and closed.
        if (c.req.method === 'HEAD') return c.body(null, 200, LOG_HEADERS)
        // Also learns when the credential expires, and ends the stream then.
        await place.check()
        isStreaming = true
        return c.body(streamOf(log.value, gone, place), 200, LOG_HEADERS)
      } finally {
        if (!isStreaming) place.close()
      }
    },
  }),
})

/** Pulls a chunk after the reader has taken the previous one. */
function streamOf(
  source: AsyncGenerator<Uint8Array, void, undefined>,
  gone: AbortController,
  place: StreamPlace,
): ReadableStream<Uint8Array> {
  let isOpen = true
  const finish = () => {
    if (!isOpen) return
    isOpen = false
    gone.abort()
    // Closes the file of a reader that left in the middle of it.
    void source.return().catch(() => {})
    place.close()
  }
  return new ReadableStream<Uint8Array>({
    start: (controller) =>
      place.onEnded(() => {
        if (isOpen) controller.close()
        finish()
      }),
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
    cancel: finish,
  })
}
