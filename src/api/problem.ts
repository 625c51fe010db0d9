/** Turns a refusal into RFC 9457 problem details with a stable code and both request ids. */
import { z } from '@hono/zod-openapi'
import type { Refusal, RefusalKind } from '#kernel/refusal'
import { hintOf, kindOf } from '#refusals'

type StatusTitle = { readonly status: number; readonly title: string }

/** The status of each kind; kinds that never occur over HTTP map to 500. */
const statuses: Record<RefusalKind, StatusTitle> = {
  malformed: { status: 400, title: 'Malformed request' },
  unauthenticated: { status: 401, title: 'Not authenticated' },
  forbidden: { status: 403, title: 'Not allowed' },
  not_found: { status: 404, title: 'Not found' },
  method: { status: 405, title: 'Method not allowed' },
  timeout: { status: 408, title: 'Request took too long' },
  conflict: { status: 409, title: 'Not possible now' },
  gone: { status: 410, title: 'No longer here' },
  too_large: { status: 413, title: 'Too large' },
  unsupported: { status: 415, title: 'Unsupported content' },
  range: { status: 416, title: 'Range not satisfiable' },
  invalid: { status: 422, title: 'Invalid value' },
  rate: { status: 429, title: 'Too many requests' },
  headers_too_large: { status: 431, title: 'Headers too large' },
  unavailable: { status: 503, title: 'Not available' },
  usage: { status: 500, title: 'Internal error' },
  configuration: { status: 500, title: 'Internal error' },
  internal: { status: 500, title: 'Internal error' },
}

export type RequestIds = { readonly traceId: string; readonly requestId: string }

const problemShape = z
  .object({
    type: z.string().meta({ example: 'urn:concord:problem:workspace_unknown' }),
    title: z.string().meta({ example: 'Not found' }),
    status: z.int().meta({ example: 404 }),
    detail: z.string().meta({ example: 'There is no such workspace.', description: 'What was wrong.' }),
    code: z.string().meta({ example: 'workspace_unknown', description: 'Stable. Programs switch on it.' }),
    path: z
      .string()
      .optional()
      .meta({ example: 'payload.items[2].price', description: 'The field or header at fault.' }),
    hint: z.string().meta({ example: 'GET /workspaces lists yours.', description: 'What to do next.' }),
    facts: z.record(z.string(), z.unknown()).optional().meta({ description: 'Details for programs.' }),
    errors: z
      .array(z.object({ code: z.string(), detail: z.string(), path: z.string().optional(), hint: z.string() }))
      .optional()
      .meta({ description: 'All errors, when there are several.' }),
    trace_id: z.string().meta({ example: 'trace_4bf92f3577b34da6a3ce929d0e0e4736' }),
    request_id: z.string().meta({ example: 'req_0b7c3d5e9f1a4c2d8e6f7a8b9c0d1e2f' }),
  })
  .meta({ id: 'Problem', description: 'An error (RFC 9457).' })

type Problem = z.infer<typeof problemShape>
/** One error of several, when a body breaks more than one rule. */
export type ProblemDetail = NonNullable<Problem['errors']>[number]

/** The default of Retry-After. */
const RETRY_AFTER_S = 2

export function statusOf(refusal: Pick<Refusal, 'code'>): number {
  return statuses[kindOf(refusal.code)].status
}

export function toProblem(refusal: Refusal, ids: RequestIds, errors?: readonly ProblemDetail[]): Problem {
  const { status, title } = statuses[kindOf(refusal.code)]
  return {
    type: `urn:concord:problem:${refusal.code}`,
    title,
    status,
    detail: refusal.reason,
    code: refusal.code,
    ...(refusal.path === undefined ? {} : { path: refusal.path }),
    hint: hintOf(refusal),
    ...(refusal.facts === undefined ? {} : { facts: refusal.facts }),
    ...(errors === undefined || errors.length < 2 ? {} : { errors: [...errors] }),
    trace_id: ids.traceId,
    request_id: ids.requestId,
  }
}

export function problemHeaders(refusal: Refusal): Record<string, string> {
  const kind = kindOf(refusal.code)
  const headers: Record<string, string> = { 'content-type': 'application/problem+json' }
  if (kind === 'unauthenticated') headers['www-authenticate'] = 'Bearer realm="concord"'
  const given = refusal.facts?.['retry_after_s']
  if (kind === 'unavailable' || kind === 'rate' || typeof given === 'number') {
    headers['retry-after'] = String(typeof given === 'number' ? Math.max(1, Math.ceil(given)) : RETRY_AFTER_S)
  }
  if (kind === 'method' && Array.isArray(refusal.facts?.['allowed']))
    headers['allow'] = refusal.facts['allowed'].join(', ')
  // The rest of the request is not read, so the connection cannot be reused.
  if (kind === 'too_large' || kind === 'timeout') headers['connection'] = 'close'
  return headers
}

export function problemResponse(refusal: Refusal, ids: RequestIds, errors?: readonly ProblemDetail[]): Response {
  return new Response(JSON.stringify(toProblem(refusal, ids, errors)), {
    status: statusOf(refusal),
    headers: problemHeaders(refusal),
  })
}

const PROBLEMS = {
  400: 'The request is malformed.',
  401: 'The credential is missing or not valid.',
  403: 'The credential may not do this.',
  404: 'Not found, or not visible to you.',
  408: 'The request did not arrive in time.',
  409: 'Not possible in the present state.',
  410: 'The resource has been archived.',
  413: 'The body is too large.',
  415: 'The body is not JSON in UTF-8.',
  416: 'The requested range is not satisfiable.',
  422: 'A value is not allowed.',
  429: 'Too many requests. Retry-After gives the waiting time.',
  503: 'The database does not answer. Retry-After gives the waiting time.',
} as const
export type ProblemStatus = keyof typeof PROBLEMS

const problem = (status: ProblemStatus) => ({
  description: PROBLEMS[status],
  content: { 'application/problem+json': { schema: problemShape } },
})

/** Describes the problems of a route: the given ones, and those of every route that needs a credential. */
export function problems<const S extends ProblemStatus>(...statuses: readonly S[]) {
  const all = [...new Set<ProblemStatus>([...statuses, 401, 403, 429, 503])].sort((one, other) => one - other)
  return Object.fromEntries(all.map((status) => [status, problem(status)])) as Record<
    S | 401 | 403 | 429 | 503,
    ReturnType<typeof problem>
  >
}

/** The problems that a body can cause before its fields are validated. */
export const bodyProblems = [400, 408, 413, 415, 422] as const
