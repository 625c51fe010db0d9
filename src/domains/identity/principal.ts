/** Who is asking: the answer of `authenticate`, built from the credential and the database alone, never from a request body. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { PlatformRole } from './platform-role.ts'

export type Principal = {
  readonly credential: 'api_key' | 'jwt'
  readonly userId: string
  readonly orgId: string
  readonly orgSlug: string
  readonly externalId: string
  readonly email: string | null
  /** The lower of the user's role and the key's. */
  readonly role: PlatformRole
  /** Slugs of the org roles the user holds; they decide visibility, not permission. */
  readonly orgRoles: readonly string[]
  readonly keyId: string | null
  /** A key may be bound to one workspace; it then opens no other. */
  readonly workspaceId: string | null
}

/** Every decision by a person carries the person's user id. */
export function actorOf(principal: Pick<Principal, 'userId'>): {
  readonly actorType: 'human'
  readonly actorId: string
} {
  return { actorType: 'human', actorId: principal.userId }
}

/** A key that opens one workspace must not make anything that opens another. */
export function decideUnbound(principal: Pick<Principal, 'workspaceId'>): Decision<null> {
  if (principal.workspaceId === null) return accept(null)
  return refuse('identity.key.workspace_bound', 'Your key opens one workspace and nothing beside it.', {
    hint: 'Use a key that is not bound to a workspace.',
  })
}
