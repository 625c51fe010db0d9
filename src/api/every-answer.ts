/** Middleware for every request: the access log and the response headers. */
import type { MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import type { Answered, ApiLog } from './api-deps.ts'
import type { ApiEnv } from './request-context.ts'

/** Logs route, caller and outcome; never a body, a query or a credential. */
export function accessLog(log: ApiLog, onAnswered: (answered: Answered) => void = () => {}): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const startMs = performance.now()
    await next()
    const { requestId, traceId } = c.get('ids')
    const durationMs = performance.now() - startMs
    // The pattern, not the path: keeps ids and mistyped secrets out of the log.
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

/** The default headers, unless a route sets its own: no framing, sniffing, caching or referrer. */
const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-store',
}

/** `version` lets a CLI of another version report the mismatch. */
export function responseHeaders(version: string): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    await next()
    for (const [name, value] of Object.entries({ ...HEADERS, 'x-concord-version': version })) {
      if (!c.res.headers.has(name)) c.res.headers.set(name, value)
    }
  }
}
