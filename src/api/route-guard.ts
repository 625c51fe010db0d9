/** Matches the route before any other work: 404 without a route, 405 with Allow for a wrong method. */
import type { Hono, MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import { type Refusal, refuse } from '#kernel/refusal'
import { answerProblem, type ApiContext, type ApiEnv } from './request-context.ts'
import type { AccessTable } from './route-access.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
/** The pattern of middleware; everything else is a route. */
const EVERYWHERE = '/*'
const PROXY_TRICKS = /\/\/|%2f|%5c|%00|\\/i
const DOT_SEGMENT = /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i

type RouterRoute = { readonly method: string; readonly path: string }

const isRoute = (route: RouterRoute) => !(route.method === 'ALL' && route.path === EVERYWHERE)

/** Rejects a path that a proxy could interpret differently. Checks the raw path too, if there is one. */
function isAmbiguous(c: ApiContext): boolean {
  const raw = c.env?.incoming?.url?.split('?', 1)[0]
  return PROXY_TRICKS.test(c.req.path) || (raw !== undefined && (PROXY_TRICKS.test(raw) || DOT_SEGMENT.test(raw)))
}

export function routeGuard(app: Hono<ApiEnv>, table: () => AccessTable): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (isAmbiguous(c)) return answerProblem(c, notFound())
    const route = matchedRoutes(c).find(isRoute)
    if (!route) return answerProblem(c, refuseTarget(app, c))
    c.set('access', table().find(route.method, route.path))
    await next()
  }
}

export function notFound(): Refusal {
  return refuse('api.route.not_found', 'There is nothing at this address.', {
    hint: 'GET /openapi.json lists every route.',
  })
}

function refuseTarget(app: Hono<ApiEnv>, c: ApiContext): Refusal {
  const allowed = METHODS.filter((method) =>
    app.router.match(method, c.req.path)[0].some(([[, route]]) => isRoute(route)),
  )
  if (allowed.length === 0) return notFound()
  return refuse('api.method.not_allowed', 'This address does not support this method.', {
    hint: `Use ${allowed.join(' or ')}.`,
    facts: { allowed: allowed.includes('GET') ? ['HEAD', ...allowed] : allowed },
  })
}
