/** Who reads memory through the API: a person, and whether that person sees what others keep for themselves. */
import { type Act, type PersonReading } from '#domains/memory'
import type { Clock } from '#kernel/clock'
import { type ApiContext, principalOf } from './request-context.ts'

/** Administrators and data owners look after everybody's memory. */
export function readerOf(c: ApiContext): PersonReading {
  const { userId, role, orgRoles } = principalOf(c)
  return {
    kind: 'person',
    actor: `user:${userId}`,
    userId,
    seesAll: role === 'admin' || orgRoles.includes('data-owner'),
    traceId: c.get('ids').traceId,
  }
}

export function viewerOf(c: ApiContext): string | undefined {
  const { seesAll, userId } = readerOf(c)
  return seesAll ? undefined : userId
}

export function actIn(c: ApiContext, now: Clock): Act {
  const { userId, role } = principalOf(c)
  return {
    actor: `user:${userId}`,
    actorKind: role === 'admin' ? 'operator' : 'user',
    traceId: c.get('ids').traceId,
    at: now(),
  }
}
