/** Who acts, as what, and under which trace: the second argument of every service. */
import type { ConcordActor } from './machines/actors.ts'

/** Who is asking: built from the credential and the database alone, never from a request body. */
export type Principal = {
  readonly credential: 'api_key' | 'jwt'
  readonly userId: string
  readonly orgId: string
  readonly orgSlug: string
  readonly externalId: string
  readonly email: string | null
  /** The lower of the user's role and the key's. */
  readonly role: 'reader' | 'writer' | 'admin'
  /** Slugs of the org roles the user holds; they decide visibility, not permission. */
  readonly orgRoles: readonly string[]
  readonly keyId: string | null
  /** A key may be bound to one workspace; it then opens no other. */
  readonly workspaceId: string | null
}

export type Actor<Kind extends string = ConcordActor> = {
  /** `user:0197…`, `worker`, `system`: as it stands in the event. */
  readonly id: string
  /** One of the closed list of the row's machine. */
  readonly kind: Kind
  readonly traceId: string
  /** The person behind it; Concord's own decisions have none. */
  readonly principal?: Principal
}

/** The part of an event that says who did it. */
export function eventBy({ id, kind, traceId }: Actor<string>) {
  return { actor: id, actorKind: kind, traceId }
}
