/** Turns a refusal into the one error form of the API: RFC 9457 problem details with a stable code and both request ids. */
import { kindOf } from '#refusals'
import type { Refusal, RefusalKind } from '#kernel/refusal'
import { hintOf } from '#refusals'

type Standing = { readonly status: number; readonly title: string }

/** Every kind has its status; the two kinds that never cross HTTP count as our own fault. */
const standings: Record<RefusalKind, Standing> = {
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

/** One finding of several, when a body breaks more than one rule. */
export type ProblemDetail = {
  readonly code: string
  readonly detail: string
  readonly path?: string
  readonly hint: string
}

export type Problem = {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
  readonly path?: string
  readonly hint: string
  readonly facts?: Readonly<Record<string, unknown>>
  readonly errors?: readonly ProblemDetail[]
  readonly trace_id: string
  readonly request_id: string
}

/** How long a caller waits before it asks again when the refusal does not say. */
const RETRY_AFTER_S = 2

export function statusOf(refusal: Pick<Refusal, 'code'>): number {
  return standings[kindOf(refusal.code)].status
}

export function toProblem(refusal: Refusal, ids: RequestIds, errors?: readonly ProblemDetail[]): Problem {
  const { status, title } = standings[kindOf(refusal.code)]
  return {
    type: `urn:concord:problem:${refusal.code}`,
    title,
    status,
    detail: refusal.reason,
    code: refusal.code,
    ...(refusal.path === undefined ? {} : { path: refusal.path }),
    hint: hintOf(refusal),
    ...(refusal.facts === undefined ? {} : { facts: refusal.facts }),
    ...(errors === undefined || errors.length < 2 ? {} : { errors }),
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
  // What is left of the request is not worth reading, so the connection is not worth keeping.
  if (kind === 'too_large' || kind === 'timeout') headers['connection'] = 'close'
  return headers
}

export function problemResponse(refusal: Refusal, ids: RequestIds, errors?: readonly ProblemDetail[]): Response {
  return new Response(JSON.stringify(toProblem(refusal, ids, errors)), {
    status: statusOf(refusal),
    headers: problemHeaders(refusal),
  })
}
