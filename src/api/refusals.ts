/** The refusals of the HTTP API: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const apiRefusals = {
  field_not_allowed: ['invalid', 'Leave it out.'],
  media_type: ['unsupported', 'Send Content-Type: application/json.'],
  encoding_unsupported: ['unsupported', 'Send the body without Content-Encoding, or with gzip alone.'],
  request_timeout: ['timeout', 'Send it again, in one go.'],
  'api.route.not_found': ['not_found', 'GET /openapi.json lists every route, /reference shows them.'],
  'api.method.not_allowed': ['method', 'Use one of the methods in the header Allow.'],
  'api.request.malformed': ['malformed', 'Send it again, complete; a client library of HTTP does it right.'],
  'api.headers.too_large': ['headers_too_large', 'Send fewer or shorter headers: 16 KiB in all.'],
  'api.host.not_allowed': ['forbidden', 'Call it by its own address, or add the name to CONCORD_HOSTS.'],
  'api.origin.not_allowed': ['forbidden', 'Call it from a page of this server, or from a program that is no page.'],
  'api.rate.exceeded': ['rate', 'Wait as long as Retry-After says.'],
  'api.streams.exceeded': ['rate', 'Close one of the streams that this key has open.'],
  internal_error: ['internal', 'Give the trace id to the operator of the server; the log has the details.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    api: typeof apiRefusals
  }
}
