/**
 * Invitations. Nobody creates a key for somebody else: a person who signs in with keys only gets an invitation, which gives no
 * access, expires after a week, and is exchanged once for the first key. A new invitation revokes every key of the person, so an
 * administrator cannot hold a working key of somebody else.
 */
import type { Actor, PersonActor } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { type CreatedApiKey, hashKey, issueKey, prefixOf } from './api-key.ts'
import type { IdentityDeps } from './deps.ts'
import { appendKeyEvent, appendOrgEvent } from './events.ts'
import {
  addUser,
  changePerson,
  decideAdministers,
  revokeKeysOf,
  saveDeactivated,
  spendInvitation,
  type StoredPerson,
} from './person.ts'
import type { PlatformRole } from './principal.ts'

export type InvitePerson = {
  /** `local:<name>`, or the subject at the identity provider. The latter signs in there and needs no invitation. */
  readonly externalId: string
  readonly email?: string | undefined
  readonly role: PlatformRole
}

/** The only place with the text of the invitation; null for a person who signs in at the identity provider. */
export type Invited = {
  readonly person: StoredPerson
  readonly invitation: { readonly text: string; readonly expiresAt: Date } | null
}

const LIFE_MS = 7 * 86_400_000
const isLocal = ({ external_id }: Pick<StoredPerson, 'external_id'>) => external_id.startsWith('local:')

export async function invitePerson(
  deps: IdentityDeps,
  actor: PersonActor,
  { externalId, email, role }: InvitePerson,
): Promise<Decision<Invited>> {
  const allowed = decideAdministers(actor.principal)
  if (!allowed.ok) return allowed
  return deps.db.transaction(async (tx) => {
    const created = await addUser(tx, deps, actor, {
      orgId: actor.principal.orgId,
      externalId,
      email: email ?? null,
      role,
    })
    if (!created.ok) return created
    return writeInvitation(tx, deps, actor, { ...created.value, deactivated_at: null, org_roles: [] })
  })
}

/** For a lost key or a lost invitation. */
export function inviteAgain(deps: IdentityDeps, actor: PersonActor, userId: string): Promise<Decision<Invited>> {
  return changePerson(deps, actor, { userId, verb: 'invite' }, async (tx, person) => {
    if (person.deactivated_at !== null) {
      return refuse('identity.user.deactivated', 'This person has left.', { hint: 'Reactivate the person first.' })
    }
    if (!isLocal(person)) {
      return refuse('identity.user.outside', 'This person signs in at the identity provider, without an invitation.')
    }
    return writeInvitation(tx, deps, actor, person)
  })
}

/** A person who returns has their former role and none of their former keys. */
export function reactivatePerson(deps: IdentityDeps, actor: PersonActor, userId: string): Promise<Decision<Invited>> {
  return changePerson(deps, actor, { userId, verb: 'reactivate' }, async (tx, person) => {
    const orgId = person.org_id
    if (!(await saveDeactivated(tx, orgId, userId, null))) return accept({ person, invitation: null })
    await appendOrgEvent(tx, deps, actor, { type: 'user_reactivated', orgId, payload: { user_id: userId } })
    return writeInvitation(tx, deps, actor, { ...person, deactivated_at: null })
  })
}

async function writeInvitation(
  tx: Tx,
  deps: IdentityDeps,
  actor: PersonActor,
  person: StoredPerson,
): Promise<Decision<Invited>> {
  if (!isLocal(person)) return accept({ person, invitation: null })
  const now = deps.now()
  const ended = await revokeKeysOf(tx, person.org_id, person.id, now)
  const expiresAt = new Date(now.getTime() + LIFE_MS)
  const { stored, key } = await issueKey(tx, deps, {
    org_id: person.org_id,
    user_id: person.id,
    name: 'invitation',
    role: person.role,
    created_at: now,
    expires_at: expiresAt,
    is_invitation: true,
  })
  const payload = { user_id: person.id, key_id: stored.id, keys_ended: ended, expires_at: expiresAt.toISOString() }
  await appendOrgEvent(tx, deps, actor, { type: 'user_invited', orgId: person.org_id, payload })
  return accept({ person, invitation: { text: key, expiresAt } })
}

/** Exchanges an invitation, once, for the first key of the invited person, who is the actor of the recorded events. */
export async function redeemInvitation(
  deps: IdentityDeps,
  traceId: string,
  invitation: string,
): Promise<Decision<CreatedApiKey>> {
  // One answer for unknown, spent, expired and malformed invitations, as for every credential (I3).
  const invalid = () =>
    refuse('identity.invitation.invalid', 'This invitation is not valid.', {
      hint: 'Ask an administrator for a new one.',
    })
  if (prefixOf(invitation) === undefined) return invalid()
  return deps.db.transaction(async (tx) => {
    const now = deps.now()
    const spent = await spendInvitation(tx, hashKey(invitation), now)
    if (!spent) return invalid()
    const created = await issueKey(tx, deps, { ...spent, name: 'first key', created_at: now })
    const actor: Actor = { id: `user:${spent.user_id}`, kind: 'user', traceId }
    const payload = { user_id: spent.user_id, key_id: created.stored.id }
    await appendOrgEvent(tx, deps, actor, { type: 'invitation_redeemed', orgId: spent.org_id, payload })
    await appendKeyEvent(tx, deps, actor, 'api_key_created', created.stored)
    return accept(created)
  })
}
