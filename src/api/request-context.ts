/** The context of a request through all middleware: its ids, the caller, the workspace and the access rules of the route. */
import type { HttpBindings } from '@hono/node-server'
import type { Context, MiddlewareHandler } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Principal, Workspace } from '#domains/identity'
import { KernelFault } from '#kernel/errors'
import { textId } from '#kernel/ids'
import type { Refusal } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import { type ProblemDetail, problemHeaders, type RequestIds, toProblem } from './problem.ts'
import type { RouteAccess } from './route-access.ts'

export type ApiEnv = {
  Bindings: Partial<HttpBindings>
  Variables: {
    ids: RequestIds
    principal: Principal | undefined
    workspace: Workspace | undefined
    access: RouteAccess | undefined
  }
}

export type ApiContext = Context<ApiEnv>

const REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/

/** Keeps the caller's request id when it is safe to print, and adopts a W3C trace id, so that one trace spans both systems. */
export function requestIds(randomBytes: (count: number) => Uint8Array): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const asked = c.req.header('x-request-id')
    const requestId =
      asked !== undefined && REQUEST_ID.test(asked) && !hasSecretShape(asked)
        ? asked
        : textId('request', randomBytes(16))
    const trace = TRACEPARENT.exec(c.req.header('traceparent') ?? '')?.[1]
    const traceId = trace === undefined ? textId('trace', randomBytes(16)) : `trace_${trace}`
    c.set('ids', { requestId, traceId })
    c.header('x-request-id', requestId)
    c.header('x-trace-id', traceId)
    await next()
  }
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
