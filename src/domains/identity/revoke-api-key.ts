/** Revokes an API key at once: the next request with it is refused, since nothing about keys is cached. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendKeyEvent } from './events.ts'
import { findKey, type StoredApiKey, saveKeyRevoked } from './api-key-repository.ts'
import type { Principal } from './principal.ts'
import { byPrincipal, type IdentityWorld } from './world.ts'

export async function revokeApiKey(
  world: IdentityWorld,
  principal: Principal,
  traceId: string,
  keyId: string,
): Promise<Decision<StoredApiKey>> {
  const scope = { orgId: principal.orgId, workspaceId: principal.workspaceId }
  return world.db.transaction(async (tx) => {
    const revoked = await saveKeyRevoked(tx, scope, keyId, world.now())
    if (revoked) {
      await appendKeyEvent(tx, world, byPrincipal(principal, traceId), 'api_key_revoked', revoked)
      return accept(revoked)
    }
    // Revoking twice is no mistake; the first time stands.
    const known = await findKey(tx, scope, keyId)
    return known ? accept(known) : refuse('identity.key.not_found', 'There is no such key.', { path: 'key_id' })
  })
}
