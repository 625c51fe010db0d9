/**
 * Brings people in. Nobody makes a key for somebody else: whoever signs in with keys alone gets an invitation, which opens
 * nothing, ends after a week, and is exchanged once for the first key. Inviting again ends every key the person has, so an
 * administrator cannot hold a working key beside the person's own.
 */
import type { Principal } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { type CreatedApiKey, hashKey, insertApiKey, mintKey, prefixOf } from './api-key.ts'
import { byPrincipal, type IdentityDeps } from './deps.ts'
import { appendKeyEvent, appendOrgEvent } from './events.ts'
import {
  addUser,
  decideAdministers,
  decideOther,
  findPerson,
  lockPeople,
  revokeKeysOf,
  saveDeactivated,
  spendInvitation,
  type StoredPerson,
} from './person.ts'
import type { PlatformRole } from './principal.ts'

export type InvitePerson = {
  /** `local:<name>`, or the subject at the identity provider, who signs in there and needs no invitation. */
  readonly externalId: string
  readonly email?: string | undefined
  readonly role: PlatformRole
}

/** The invitation itself is in the answer and nowhere else. */
export type Invited = {
  readonly person: StoredPerson
  readonly invitation: { readonly text: string; readonly expiresAt: Date } | null
}

const LIFE_MS = 7 * 86_400_000
const isLocal = ({ external_id }: Pick<StoredPerson, 'external_id'>) => external_id.startsWith('local:')

export async function invitePerson(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  input: InvitePerson,
): Promise<Decision<Invited>> {
  const allowed = decideAdministers(by)
  if (!allowed.ok) return allowed
  const { externalId, email = null, role } = input
  return deps.db.transaction(async (tx) => {
    const made = await addUser(tx, deps, byPrincipal(by, traceId), { orgId: by.orgId, externalId, email, role })
    if (!made.ok) return made
    const person = { ...made.value, deactivated_at: null, org_roles: [] }
    return isLocal(person) ? writeInvitation(tx, deps, by, traceId, person) : accept({ person, invitation: null })
  })
}

/** For a lost key or a lost invitation, and for somebody who comes back. */
export async function inviteAgain(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  userId: string,
): Promise<Decision<Invited>> {
  const allowed = decideOther(by, userId, 'invites')
  if (!allowed.ok) return allowed
  return deps.db.transaction(async (tx) => {
    await lockPeople(tx, by.orgId)
    const person = await findPerson(tx, by.orgId, userId)
    if (!person) return refuse('identity.user.not_found', 'There is no such person.', { path: 'user_id' })
    if (person.deactivated_at !== null) {
      return refuse('identity.user.deactivated', 'This person has left.', { hint: 'Reactivate the person first.' })
    }
    if (!isLocal(person)) {
      return refuse('identity.user.outside', 'This person signs in at the identity provider, without an invitation.')
    }
    return writeInvitation(tx, deps, by, traceId, person)
  })
}

/** Lets somebody who left come back, with the role they had and none of the keys. */
export async function reactivatePerson(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  userId: string,
): Promise<Decision<Invited>> {
  const allowed = decideOther(by, userId, 'reactivates')
  if (!allowed.ok) return allowed
  return deps.db.transaction(async (tx) => {
    await lockPeople(tx, by.orgId)
    const person = await findPerson(tx, by.orgId, userId)
    if (!person) return refuse('identity.user.not_found', 'There is no such person.', { path: 'user_id' })
    if (!(await saveDeactivated(tx, by.orgId, userId, null))) return accept({ person, invitation: null })
    const fact = { type: 'user_reactivated', orgId: by.orgId, payload: { user_id: userId } } as const
    await appendOrgEvent(tx, deps, byPrincipal(by, traceId), fact)
    const back = { ...person, deactivated_at: null }
    return isLocal(back) ? writeInvitation(tx, deps, by, traceId, back) : accept({ person: back, invitation: null })
  })
}

async function writeInvitation(
  tx: Tx,
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  person: StoredPerson,
): Promise<Decision<Invited>> {
  const now = deps.now()
  const ended = await revokeKeysOf(tx, person.org_id, person.id, now)
  const minted = mintKey(deps.randomBytes)
  const expiresAt = new Date(now.getTime() + LIFE_MS)
  const stored = await insertApiKey(tx, {
    id: deps.newId(),
    org_id: person.org_id,
    user_id: person.id,
    workspace_id: null,
    name: 'invitation',
    prefix: minted.prefix,
    key_hash: minted.hash,
    role: person.role,
    created_at: now,
    expires_at: expiresAt,
    is_invitation: true,
  })
  if (!stored) throw new KernelFault('identity.key.prefix_taken', 'two random key prefixes of 48 bits were equal')
  const payload = { user_id: person.id, key_id: stored.id, keys_ended: ended, expires_at: expiresAt.toISOString() }
  await appendOrgEvent(tx, deps, byPrincipal(by, traceId), { type: 'user_invited', orgId: person.org_id, payload })
  return accept({ person, invitation: { text: minted.key, expiresAt } })
}

/** Exchanges an invitation, once, for the first key of the invited person. Its holder counts as that person. */
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
