/** One line per request, after it: what was asked, by whom, how it ended; never a body, a query or a credential. */
import type { MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import type { Answered, ApiLog } from './api-deps.ts'
import type { ApiEnv } from './request-context.ts'

export function accessLog(log: ApiLog, onAnswered: (answered: Answered) => void = () => {}): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const startMs = performance.now()
    await next()
    const { requestId, traceId } = c.get('ids')
    const durationMs = performance.now() - startMs
    // The pattern, not the address: ids and mistyped secrets in a path stay out of the log.
    const route = matchedRoutes(c).at(-1)?.path
    onAnswered({ method: c.req.method, route: route ?? 'none', status: c.res.status, durationMs })
    const principal = c.get('principal')
    log.info(
      {
        method: c.req.method,
        route,
        status: c.res.status,
        duration_ms: Math.round(durationMs * 10) / 10,
        request_id: requestId,
        trace_id: traceId,
        ...(principal && { user_id: principal.userId, org_id: principal.orgId, key_id: principal.keyId }),
        ...(c.get('workspace') && { workspace_id: c.get('workspace')?.id }),
      },
      'request',
    )
  }
}
