/** Exchanges an invitation, once, for the first key of the person it was made for. Whoever holds it is that person. */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { hashKey, mintKey, prefixOf } from './api-key.ts'
import { insertApiKey } from './api-key-repository.ts'
import type { CreatedApiKey } from './create-api-key.ts'
import { appendKeyEvent, appendOrgEvent } from './events.ts'
import { spendInvitation } from './people-repository.ts'
import { byPrincipal, type IdentityDeps } from './deps.ts'

export async function redeemInvitation(
  deps: IdentityDeps,
  traceId: string,
  invitation: string,
): Promise<Decision<CreatedApiKey>> {
  // One answer for unknown, spent, expired and malformed, as for every credential (I3).
  const invalid = () =>
    refuse('identity.invitation.invalid', 'This invitation is not valid.', {
      hint: 'Ask an administrator for a new one.',
    })
  if (prefixOf(invitation) === undefined) return invalid()
  return deps.db.transaction(async (tx) => {
    const now = deps.now()
    const spent = await spendInvitation(tx, hashKey(invitation), now)
    if (!spent) return invalid()
    const minted = mintKey(deps.randomBytes)
    const stored = await insertApiKey(tx, {
      id: deps.newId(),
      org_id: spent.org_id,
      user_id: spent.user_id,
      workspace_id: null,
      name: 'first key',
      prefix: minted.prefix,
      key_hash: minted.hash,
      role: spent.role,
      created_at: now,
      expires_at: null,
      is_invitation: false,
    })
    if (!stored) throw new KernelFault('identity.key.prefix_taken', 'two random key prefixes of 48 bits were equal')
    const by = byPrincipal({ userId: spent.user_id }, traceId)
    const payload = { user_id: spent.user_id, key_id: stored.id }
    await appendOrgEvent(tx, deps, by, { type: 'invitation_redeemed', orgId: spent.org_id, payload })
    await appendKeyEvent(tx, deps, by, 'api_key_created', stored)
    return accept({ stored, key: minted.key })
  })
}
