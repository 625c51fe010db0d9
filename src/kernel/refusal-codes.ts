/**
 * Every refusal code of Concord, with its kind. The API turns a kind into an HTTP status, the CLI into an exit code;
 * a code never changes its meaning and is never reused.
 */
export type RefusalKind =
  | 'malformed' // 400, exit 65: the bytes make no sense
  | 'unauthenticated' // 401, exit 77
  | 'forbidden' // 403, exit 77
  | 'not_found' // 404, exit 65: also what a foreign id answers
  | 'method' // 405, exit 64
  | 'timeout' // 408, exit 75
  | 'conflict' // 409, exit 75: not in this state, or not now
  | 'too_large' // 413, exit 65
  | 'unsupported' // 415, exit 65
  | 'invalid' // 422, exit 65: well-formed but not allowed
  | 'rate' // 429, exit 75
  | 'headers_too_large' // 431, exit 65
  | 'unavailable' // 503, exit 69
  | 'usage' // CLI only, exit 64
  | 'configuration' // start-up only, exit 78
  | 'internal' // 500, exit 70: a fault of ours

export const refusalCodes = {
  // machines and rows
  'machine.state.unknown': 'invalid',
  'machine.move.illegal': 'conflict',
  'machine.actor.not_allowed': 'forbidden',
  'row.not_found': 'not_found',
  'row.conflict': 'conflict',
  'lease.lost': 'conflict',
  'event.type.unknown': 'internal',
} as const satisfies Record<string, RefusalKind>

export type RefusalCode = keyof typeof refusalCodes

export function kindOf(code: RefusalCode): RefusalKind {
  return refusalCodes[code]
}
