/**
 * The guards of a request before and after its caller is known: ids, access log, response headers, Host and Origin, and the
 * route with its access rules. `api.ts` holds their order.
 */
import type { HttpBindings } from '@hono/node-server'
import type { RouteConfig } from '@hono/zod-openapi'
import type { Context, Hono, MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { PlatformRole, Principal, Workspace } from '#domains/identity'
import { KernelFault } from '#kernel/errors'
import { textId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { type Decision, type Refusal, refuse } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import { activeTraceId, inSpan, type OpenSpan, traceIdIn } from '#telemetry'
import { type ProblemDetail, problemHeaders, type RequestIds, toProblem } from './problem.ts'

export type ApiEnv = {
  /** `isOwn`: the program that has opened Concord asks itself. */
  Bindings: Partial<HttpBindings> & { readonly isOwn?: boolean }
  Variables: {
    ids: RequestIds
    principal: Principal | undefined
    workspace: Workspace | undefined
    /** The workspace as it was looked up with the caller. */
    entered: Decision<Workspace> | undefined
    /** Set while the caller is only remembered, and nothing has confirmed it. */
    remembered: Remembered | undefined
    access: RouteAccess | undefined
    /** The body as sent, after the body guard. */
    sent: JsonObject | undefined
  }
}

type Remembered = {
  /** For a statement that writes only if this version still holds. */
  readonly accessVersion: string
  /** Looks the caller up and replaces what was remembered. */
  confirm(): Promise<Decision<unknown>>
}

export type ApiContext = Context<ApiEnv>

const REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/

/** Probes of machines: a span for each would be most of the traces. */
const UNTRACED = ['/health', '/metrics']

/**
 * Keeps the caller's request id when it is safe to print, and continues its W3C trace, so that one trace spans both systems. Makes the
 * span of the request.
 */
export function requestIds(randomBytes: (count: number) => Uint8Array): MiddlewareHandler<ApiEnv> {
  async function answer(c: ApiContext, next: () => Promise<void>, span?: OpenSpan): Promise<void> {
    const asked = c.req.header('x-request-id')
    const requestId =
      asked !== undefined && REQUEST_ID.test(asked) && !hasSecretShape(asked)
        ? asked
        : textId('request', randomBytes(16))
    const given = c.req.header('traceparent')
    const traceId =
      (span && activeTraceId()) ??
      (given === undefined ? undefined : traceIdIn(given)) ??
      textId('trace', randomBytes(16))
    c.set('ids', { requestId, traceId })
    c.header('x-request-id', requestId)
    c.header('x-trace-id', traceId)
    await next()
    if (span) describeAnswer(c, span)
  }
  return (c, next) => {
    if (UNTRACED.includes(c.req.path)) return answer(c, next)
    const { method } = c.req
    const termsOf = () => ({
      name: method,
      kind: 'SERVER' as const,
      // A program that embeds Concord may have made the span of its request already.
      parent: activeTraceId() === undefined ? c.req.header('traceparent') : undefined,
      attributes: { 'http.request.method': method },
    })
    return inSpan(termsOf, (span) => answer(c, next, span))
  }
}

/** The pattern, not the path: an address can contain a mistyped secret. */
function describeAnswer(c: ApiContext, span: OpenSpan): void {
  const { status } = c.res
  const route = matchedRoutes(c).at(-1)?.path
  if (route !== undefined) {
    span.name(`${c.req.method} ${route}`)
    span.set({ 'http.route': route })
  }
  span.set({ 'http.response.status_code': status })
  if (status >= 500) span.fail(String(status))
}

export function answerProblem(c: ApiContext, refusal: Refusal, errors?: readonly ProblemDetail[]): Response {
  // Uses the context, so that headers set earlier (ids, rate, CORS) stay on the answer.
  const problem = toProblem(refusal, c.get('ids'), errors)
  return c.body(JSON.stringify(problem), problem.status as ContentfulStatusCode, problemHeaders(refusal))
}

/** Returns the caller. Throws on a route that needs no credential, which is an internal error. */
export function principalOf(c: ApiContext): Principal {
  const principal = c.get('principal')
  if (!principal) throw new KernelFault('api.principal.missing', 'A public route asked for the caller.')
  return principal
}

export function workspaceOf(c: ApiContext): Workspace {
  const workspace = c.get('workspace')
  if (!workspace) throw new KernelFault('api.workspace.missing', 'The route did not declare that it needs a workspace.')
  return workspace
}

/** The part of a pino logger that the API uses. */
export type ApiLog = {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

/** The outcome of one request, for metrics. */
export type Answered = {
  readonly method: string
  /** The pattern, such as `/commands/:command_id`. */
  readonly route: string
  readonly status: number
  readonly durationMs: number
}

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
  const defaults = Object.entries({ ...HEADERS, 'x-concord-version': version })
  return async (c, next) => {
    await next()
    const { headers } = c.res
    for (const [name, value] of defaults) if (!headers.has(name)) headers.set(name, value)
  }
}

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']
const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/

type SameOrigin = { readonly hosts: readonly string[] | 'any'; readonly origins: readonly string[] }

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

type RouteAccess = {
  /** Needs no credential. */
  readonly open: boolean
  readonly role: PlatformRole
  readonly workspace: boolean
  /** Takes the key of an agent. */
  readonly agents: boolean
  /** `raw` leaves the body to the route. */
  readonly body: 'required' | 'none' | 'raw'
  readonly config?: RouteConfig
}

/** Describes the role that a route requires, whether it is inside a workspace, and whether it is open to agents. */
export function needs(role: PlatformRole, where: 'workspace' | 'org' = 'workspace', agents = false) {
  return {
    security: [{ bearer: [] as string[] }],
    'x-role': role,
    'x-workspace': where === 'workspace',
    ...(agents ? { 'x-agents': true } : {}),
  }
}

/** Describes an open route. */
export function needsNothing() {
  return { security: [] as { bearer: string[] }[], 'x-role': null, 'x-workspace': false }
}

export function isRaw(config: object): boolean {
  return 'x-raw-body' in config
}

/** Closed by default: a description without access rules requires an administrator, who is a person, and a workspace. */
function accessOf(config: RouteConfig): RouteAccess {
  const declared = config as RouteConfig & {
    'x-role'?: PlatformRole | null
    'x-workspace'?: boolean
    'x-agents'?: boolean
  }
  return {
    open: config.security?.length === 0,
    role: declared['x-role'] ?? 'admin',
    workspace: declared['x-workspace'] ?? true,
    agents: declared['x-agents'] ?? false,
    body: isRaw(config) ? 'raw' : config.request?.body ? 'required' : 'none',
    config,
  }
}

export type AccessTable = {
  /** By method and path pattern, as the router names them. */
  find(method: string, pattern: string): RouteAccess
  /** Whether a route has exactly this path. `/commands/preview` is then no id of a command, whatever the method. */
  isLiteral(path: string): boolean
}

type Definition = { readonly type: string; readonly route?: RouteConfig }

export function openAccessTable(definitions: readonly Definition[]): AccessTable {
  const literals = new Set<string>()
  const table = new Map<string, RouteAccess>()
  for (const { type, route } of definitions) {
    if (type !== 'route' || !route) continue
    const pattern = route.path.replaceAll(/\/{(.+?)}/g, '/:$1')
    table.set(`${route.method.toUpperCase()} ${pattern}`, accessOf(route))
    if (!pattern.includes(':')) literals.add(pattern)
  }
  return {
    find(method, pattern) {
      const known = table.get(`${method} ${pattern}`)
      return known ?? { open: false, role: 'admin', workspace: false, agents: false, body: 'raw' }
    },
    isLiteral: (path) => literals.has(path),
  }
}

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
    const isTarget = (route: RouterRoute) =>
      isRoute(route) && (route.path === c.req.path || !table().isLiteral(c.req.path))
    const route = matchedRoutes(c).find(isTarget)
    if (!route) return answerProblem(c, refuseTarget(app, c, isTarget))
    c.set('access', table().find(route.method, route.path))
    const wrong = c.req.url.includes('?') ? refuseQuery(new URL(c.req.url).searchParams) : undefined
    if (wrong) return answerProblem(c, wrong)
    await next()
  }
}

function refuseQuery(query: URLSearchParams): Refusal | undefined {
  if ([...query].flat().some((text) => text.includes('\0')))
    return refuse('nul_character', 'The query contains the character NUL.', { path: 'query' })
  // The parser of queries drops a parameter without a name, so no description would refuse it.
  return query.has('') ? refuse('unknown_field', 'A query parameter has no name.', { path: 'query' }) : undefined
}

export function notFound(): Refusal {
  return refuse('api.route.not_found', 'There is nothing at this address.', {
    hint: 'GET /openapi.json lists every route.',
  })
}

function refuseTarget(app: Hono<ApiEnv>, c: ApiContext, isTarget: (route: RouterRoute) => boolean): Refusal {
  const allowed = METHODS.filter((method) =>
    app.router.match(method, c.req.path)[0].some(([[, route]]) => isTarget(route)),
  )
  if (allowed.length === 0) return notFound()
  return refuse('api.method.not_allowed', 'This address does not support this method.', {
    hint: `Use ${allowed.join(' or ')}.`,
    facts: { allowed: allowed.includes('GET') ? ['HEAD', ...allowed] : allowed },
  })
}
