/** Authenticates the bearer credential, checks the role that the route requires, and resolves the workspace. */
import type { MiddlewareHandler } from 'hono'
import { authorize, resolveWorkspace } from '#domains/identity'
import { type Decision, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import type { BadBearers } from './bad-bearers.ts'
import { answerProblem, type ApiContext, type ApiEnv } from './request-context.ts'

const BEARER = /^Bearer +([^\s,]+)$/i

/** Returns the bearer credential of a request. Several credentials, or one in another form, count as none. */
export function bearerOf(c: ApiContext): Decision<string> {
  const given = BEARER.exec(c.req.header('authorization') ?? '')?.[1]
  if (given !== undefined) return { ok: true, value: given }
  return refuse('unauthenticated', 'This request needs a credential.', {
    hint: 'Send Authorization: Bearer and an API key.',
  })
}

export function authentication(
  { authenticate }: Pick<ApiDeps, 'authenticate'>,
  bad: BadBearers,
): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (c.get('access')?.open) return next()
    const bearer = bearerOf(c)
    if (!bearer.ok) return answerProblem(c, bearer)
    const tooMany = bad.decide(c, bearer.value)
    if (tooMany) return answerProblem(c, tooMany)
    const principal = await authenticate(bearer.value)
    // An unavailable database or provider is not evidence against the credential.
    if (principal.ok || principal.code === 'unauthenticated') bad.note(c, bearer.value, principal.ok)
    if (!principal.ok) return answerProblem(c, principal)
    c.set('principal', principal.value)
    await next()
  }
}

/** Runs after the rate limit, so that callers without the role are limited too. */
export function authorization(deps: Pick<ApiDeps, 'db' | 'defaultWorkspace'>): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const access = c.get('access')
    const principal = c.get('principal')
    if (!access || access.open || !principal) return next()
    const allowed = authorize(principal, access.role)
    if (!allowed.ok) return answerProblem(c, allowed)
    if (!access.workspace) return next()
    const workspace = await resolveWorkspace(deps, principal, workspaceSources(c, deps.defaultWorkspace))
    if (!workspace.ok) return answerProblem(c, workspace)
    c.set('workspace', workspace.value)
    await next()
  }
}

function workspaceSources(c: ApiContext, fallback: string | undefined) {
  return {
    idHeader: c.req.header('x-workspace-id'),
    slugHeader: c.req.header('x-workspace'),
    idQuery: c.req.query('workspace_id'),
    fallback,
  }
}
