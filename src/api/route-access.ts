/** What a route demands of its caller, read from the route's own description: what openapi.json says is what is enforced. */
import type { RouteConfig } from '@hono/zod-openapi'
import type { PlatformRole } from '#domains/identity'

export type RouteAccess = {
  /** Needs no credential. */
  readonly open: boolean
  readonly role: PlatformRole
  readonly workspace: boolean
  /** `raw` leaves the body to the route itself: only for routes without a description. */
  readonly body: 'required' | 'none' | 'raw'
  readonly config?: RouteConfig
}

/** For a route's description: who may call it, and whether it happens inside a workspace. */
export function needs(role: PlatformRole, where: 'workspace' | 'org' = 'workspace') {
  return { security: [{ bearer: [] as string[] }], 'x-role': role, 'x-workspace': where === 'workspace' }
}

/** For the few routes that anyone may call. */
export function needsNothing() {
  return { security: [] as { bearer: string[] }[], 'x-role': null, 'x-workspace': false }
}

/** Closed unless it says otherwise: a description that names nothing needs an administrator and a workspace. */
function accessOf(config: RouteConfig): RouteAccess {
  const declared = config as RouteConfig & { 'x-role'?: PlatformRole | null; 'x-workspace'?: boolean }
  return {
    open: config.security?.length === 0,
    role: declared['x-role'] ?? 'admin',
    workspace: declared['x-workspace'] ?? true,
    body: config.request?.body ? 'required' : 'none',
    config,
  }
}

export type AccessTable = {
  /** By method and path pattern, as the router names them. */
  find(method: string, pattern: string): RouteAccess
}

type Definition = { readonly type: string; readonly route?: RouteConfig }

export function openAccessTable(definitions: readonly Definition[], publicPaths: readonly string[]): AccessTable {
  const table = new Map<string, RouteAccess>()
  for (const { type, route } of definitions) {
    if (type !== 'route' || !route) continue
    const pattern = route.path.replaceAll(/\/{(.+?)}/g, '/:$1')
    table.set(`${route.method.toUpperCase()} ${pattern}`, accessOf(route))
  }
  return {
    find(method, pattern) {
      const known = table.get(`${method} ${pattern}`)
      return known ?? { open: publicPaths.includes(pattern), role: 'admin', workspace: false, body: 'raw' }
    },
  }
}
