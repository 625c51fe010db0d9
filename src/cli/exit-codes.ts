/** The exit code of each kind of refusal, after sysexits: scripts can tell a typing mistake from a server that is down. */
import { kindOf } from '#refusals'
import type { Refusal, RefusalKind } from '#kernel/refusal'

const EXIT: Readonly<Record<RefusalKind, number>> = {
  usage: 64,
  method: 64,
  malformed: 65,
  invalid: 65,
  not_found: 65,
  gone: 65,
  too_large: 65,
  unsupported: 65,
  range: 65,
  headers_too_large: 65,
  unavailable: 69,
  internal: 70,
  conflict: 75,
  rate: 75,
  timeout: 75,
  unauthenticated: 77,
  forbidden: 77,
  configuration: 78,
}

export function exitCodeOf(refusal: Refusal): number {
  return EXIT[kindOf(refusal.code)]
}
