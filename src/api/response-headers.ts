/** Headers that every answer carries unless its route chose its own: nothing is framed, sniffed, cached or sent on. */
import type { MiddlewareHandler } from 'hono'
import type { ApiEnv } from './request-context.ts'

const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-store',
}

/** `version` lets a command line of another version say so instead of failing in odd ways. */
export function responseHeaders(version: string): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    await next()
    for (const [name, value] of Object.entries({ ...HEADERS, 'x-concord-version': version })) {
      if (!c.res.headers.has(name)) c.res.headers.set(name, value)
    }
  }
}
