/** The access rules of a route, read from its description, so that openapi.json states what is enforced. */
import type { RouteConfig } from '@hono/zod-openapi'
import type { PlatformRole } from '#domains/identity'

export type RouteAccess = {
  /** Needs no credential. */
  readonly open: boolean
  readonly role: PlatformRole
  readonly workspace: boolean
  /** `raw` leaves the body to the route; only for routes without a description. */
  readonly body: 'required' | 'none' | 'raw'
  readonly config?: RouteConfig
}

/** Describes the role that a route requires, and whether it is inside a workspace. */
export function needs(role: PlatformRole, where: 'workspace' | 'org' = 'workspace') {
  return { security: [{ bearer: [] as string[] }], 'x-role': role, 'x-workspace': where === 'workspace' }
}

/** Describes an open route. */
export function needsNothing() {
  return { security: [] as { bearer: string[] }[], 'x-role': null, 'x-workspace': false }
}

/** Closed by default: a description without access rules requires an administrator and a workspace. */
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
