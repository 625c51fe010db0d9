/** The refusal codes of the HTTP API, each with its kind and its default hint. */
import type { RefusalTable } from '#kernel/refusal'

export const apiRefusals = {
  field_not_allowed: ['invalid', 'Omit the field.'],
  media_type: ['unsupported', 'Send Content-Type: application/json.'],
  encoding_unsupported: ['unsupported', 'Send the body without Content-Encoding, or with gzip only.'],
  request_timeout: ['timeout', 'Send the request again without pauses.'],
  'api.route.not_found': ['not_found', 'GET /openapi.json lists every route; /reference shows them.'],
  'api.route.closed_to_agents': ['forbidden', 'Propose the action with POST /agent-actions.'],
  'api.method.not_allowed': ['method', 'Use one of the methods in the header Allow.'],
  'api.request.malformed': ['malformed', 'Send a complete, well-formed request, for example with an HTTP library.'],
  'api.headers.too_large': ['headers_too_large', 'Send fewer or shorter headers: at most 16 KiB in total.'],
  'api.idempotency_key.differs': ['invalid', 'Send the key in one place, or the same key in both.'],
  'api.host.not_allowed': ['forbidden', 'Use the address of the server, or add the name to CONCORD_HOSTS.'],
  'api.origin.not_allowed': ['forbidden', 'Call the API from a page of this server, or from a program.'],
  'api.rate.exceeded': ['rate', 'Wait for the time in Retry-After.'],
  'api.streams.exceeded': ['rate', 'Close one of the streams that this key has open.'],
  internal_error: ['internal', 'Report the trace id to the operator of the server. The log has the details.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    api: typeof apiRefusals
  }
}
