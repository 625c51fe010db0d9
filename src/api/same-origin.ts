/** Rejects requests of foreign web pages: the Host must be a name of this server, and the Origin its own or a listed one. */
import type { MiddlewareHandler } from 'hono'
import { refuse } from '#kernel/refusal'
import { answerProblem, type ApiEnv } from './request-context.ts'

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']
const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/

export type SameOrigin = { readonly hosts: readonly string[] | 'any'; readonly origins: readonly string[] }

function nameOf(host: string): string | undefined {
  return HOST.exec(host.toLowerCase())?.[1]
}

/**
 * DNS rebinding resolves a foreign name to this machine, but Host still contains the foreign name. A page of another origin
 * sends that origin; only listed origins receive CORS headers.
 */
export function sameOrigin({ hosts, origins }: SameOrigin): MiddlewareHandler<ApiEnv> {
  const names = hosts === 'any' ? undefined : new Set([...LOOPBACK, ...hosts.map((host) => host.toLowerCase())])
  return async (c, next) => {
    const host = c.req.header('host') ?? new URL(c.req.url).host
    const name = nameOf(host)
    if (name === undefined || (names && !names.has(name))) {
      return answerProblem(
        c,
        refuse('api.host.not_allowed', 'This server does not serve that host name.', { path: 'Host' }),
      )
    }
    const origin = c.req.header('origin')
    if (origin === undefined) return next()
    const listed = origins.includes(origin)
    if (!listed && !isSame(origin, host)) {
      return answerProblem(
        c,
        refuse('api.origin.not_allowed', 'Pages of this origin may not call the API.', { path: 'Origin' }),
      )
    }
    if (!listed) return next()
    c.header('access-control-allow-origin', origin)
    c.header('vary', 'Origin')
    if (c.req.method !== 'OPTIONS') return next()
    return c.body(null, 204, {
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers':
        'authorization, content-type, idempotency-key, last-event-id, traceparent, x-request-id, x-workspace, x-workspace-id',
      'access-control-max-age': '600',
    })
  }
}

function isSame(origin: string, host: string): boolean {
  return origin === `http://${host}` || origin === `https://${host}`
}
