/** What the services of this room need from outside, and on whose behalf they act. */
import type { Clock, NewId } from '#kernel/clock'
import type { Db } from '#store'
import type { RandomBytes } from './api-key.ts'
import type { Principal } from './principal.ts'

export type IdentityDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly randomBytes: RandomBytes
}

/** Who does it and under which trace; both stand in the audit record. */
export type By = { readonly actor: string; readonly traceId: string }

/** Installation and the operator's own command line, before there is anyone to name. */
export function bySystem(traceId: string): By {
  return { actor: 'system', traceId }
}

export function byPrincipal(principal: Pick<Principal, 'userId'>, traceId: string): By {
  return { actor: `user:${principal.userId}`, traceId }
}
