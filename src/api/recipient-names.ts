/** The names under which messages in the app reach somebody: their id in both forms, their name, their address. Pure. */
import type { Principal } from '#domains/identity'
import { decodeId, encodeId } from '#kernel/ids'
import { isUuid } from '#kernel/uuid'

export function recipientNames({
  userId,
  externalId,
  email,
}: Pick<Principal, 'userId' | 'externalId' | 'email'>): string[] {
  // Names are given by administrators: one in the form of an id is that person's alone, whoever else was called so.
  const given = [externalId, ...(email === null ? [] : [email])].filter((name) => !isIdOfPerson(name))
  return [`user:${userId}`, encodeId('user', userId), ...given]
}

function isIdOfPerson(name: string): boolean {
  return decodeId('user', name).ok || (name.startsWith('user:') && isUuid(name.slice('user:'.length)))
}
