/** Revokes an API key at once: the next request with it is refused, since nothing about keys is cached. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendKeyEvent } from './events.ts'
import { findKey, type StoredApiKey, saveKeyRevoked } from './api-key-repository.ts'
import type { Principal } from '#kernel/actor'
import { byPrincipal, type IdentityDeps } from './deps.ts'

export async function revokeApiKey(
  deps: IdentityDeps,
  principal: Principal,
  traceId: string,
  keyId: string,
): Promise<Decision<StoredApiKey>> {
  const scope = { orgId: principal.orgId, workspaceId: principal.workspaceId }
  return deps.db.transaction(async (tx) => {
    const revoked = await saveKeyRevoked(tx, scope, keyId, deps.now())
    if (revoked) {
      await appendKeyEvent(tx, deps, byPrincipal(principal, traceId), 'api_key_revoked', revoked)
      return accept(revoked)
    }
    // Revoking twice is no mistake; the first time stands.
    const known = await findKey(tx, scope, keyId)
    return known ? accept(known) : refuse('identity.key.not_found', 'There is no such key.', { path: 'key_id' })
  })
}
