/** Who is asking: the answer of `authenticate`, built from the credential and the database alone, never from a request body. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Principal } from '#kernel/actor'

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
