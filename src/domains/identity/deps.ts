/** What the services of this room need from outside, and on whose behalf they act. */
import type { Actor, Principal } from '#kernel/actor'
import type { Clock, NewId } from '#kernel/clock'
import type { Db } from '#store'
import type { RandomBytes } from './api-key.ts'

export type IdentityDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly randomBytes: RandomBytes
}

/** Installation and the operator's own command line, before there is anyone to name. */
export function bySystem(traceId: string): Actor<'system'> {
  return { id: 'system', kind: 'system', traceId }
}

export function byPrincipal(principal: Pick<Principal, 'userId'>, traceId: string): Actor<'user'> {
  return { id: `user:${principal.userId}`, kind: 'user', traceId }
}
