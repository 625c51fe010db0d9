/**
 * Invitations. Nobody creates a key for somebody else: a person who signs in with keys only gets an invitation, which gives no
 * access, expires after a week, and is exchanged once for the first key. A new invitation for a person who has keys waits for a second yes,
 * which revokes those keys. The credentials of a person name everybody through whose hands they came.
 */
import type { Actor, PersonActor } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Sql, Tx } from '#store'
import { type CreatedApiKey, hashKey, issueKey, prefixOf } from './api-key.ts'
import type { IdentityDeps } from './deps.ts'
import { appendKeyEvent, appendOrgEvent } from './events.ts'
import {
  addUser,
  changePerson,
  decideAdministers,
  findPerson,
  handsOf,
  lockPeople,
  revokeKeysOf,
  saveDeactivated,
  saveIssuers,
  spendInvitation,
  type StoredPerson,
} from './person.ts'
import { type PlatformRole, refusePerson } from './principal.ts'
import { tellPeople } from './tell-people.ts'

export type InvitePerson = {
  /** `local:<name>`, or the subject at the identity provider. The latter signs in there and needs no invitation. */
  readonly externalId: string
  readonly email?: string | undefined
  readonly role: PlatformRole
}

/** The only place with the text of the invitation; null for a person who signs in at the identity provider. */
export type Invited = {
  readonly person: StoredPerson
  readonly invitation: {
    readonly text: string
    readonly expiresAt: Date
    /** It cannot be redeemed until the person or a second administrator agrees. */
    readonly isHeld: boolean
  } | null
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
  const issuers = await handsOf(tx, actor)
  const isHeld = await needsYes(tx, deps, { made_by: actor.principal.userId, issuers }, person)
  const ended = await revokeKeysOf(tx, person.org_id, person.id, now, isHeld ? 'invitations' : 'all')
  const expiresAt = new Date(now.getTime() + LIFE_MS)
  const { stored, key } = await issueKey(tx, deps, {
    org_id: person.org_id,
    user_id: person.id,
    name: 'invitation',
    role: person.role,
    created_at: now,
    expires_at: expiresAt,
    is_invitation: true,
    issuers,
    is_held: isHeld,
  })
  const payload = {
    user_id: person.id,
    key_id: stored.id,
    keys_ended: isHeld ? 0 : ended,
    is_held: isHeld,
    expires_at: expiresAt.toISOString(),
  }
  await appendOrgEvent(tx, deps, actor, { type: 'user_invited', orgId: person.org_id, payload })
  if (isHeld) {
    await tellPeople(tx, deps, actor, {
      orgId: person.org_id,
      userIds: [person.id],
      toAdmins: true,
      subject: `A new invitation for ${person.external_id} waits for a second yes`,
      text: `${actor.principal.externalId} made it. With the yes it takes the place of every key of ${person.external_id}. The person agrees, or an administrator agrees ${sayIndependent(deps)}: concord people confirm ${person.external_id}.`,
    })
  }
  return accept({ person, invitation: { text: key, expiresAt, isHeld } })
}

type Made = {
  readonly made_by: string
  /** The maker, and everybody through whose hands the credentials of the maker came. */
  readonly issuers: readonly string[]
}
type HeldInvitation = Made & { readonly id: string }

/** Why an administrator with these hands (their own first) does not agree to the invitation; undefined if they may. The rule of approvals. */
function findTie({ invited }: Pick<IdentityDeps, 'invited'>, made: Made, hands: readonly string[]): string | undefined {
  if (invited === 'all') return undefined
  const [own = '', ...issuers] = hands
  if (issuers.includes(made.made_by)) return 'Your credentials came through the person who made this invitation.'
  if (made.issuers.includes(own)) return 'You issued the credentials of the person who made this invitation.'
  if (invited === 'by_others' || !issuers.some((issuer) => made.issuers.includes(issuer))) return undefined
  return 'One person issued your credentials and those of the person who made this invitation.'
}

/** Who agrees in the place of the person, as a clause about an administrator. */
const sayIndependent = ({ invited }: Pick<IdentityDeps, 'invited'>): string =>
  ({
    all: 'who did not make it',
    by_others: 'whose credentials did not come through the maker, nor those of the maker through them',
    none: 'who has no issuer in common with the maker',
  })[invited ?? 'none']

const isLiveKey = `not k.is_invitation and not k.is_agent and k.revoked_at is null
                      and (k.expires_at is null or k.expires_at > statement_timestamp())`

/**
 * A new invitation takes the place of the keys of a person, so it needs the yes of somebody beside its maker: of the person, who has a key to
 * say it, or of a second administrator who can say it now. Without either, as for a lost key in a house with one administrator, it works at once.
 */
async function needsYes(tx: Tx, deps: IdentityDeps, made: Made, { id, org_id }: StoredPerson): Promise<boolean> {
  const [row] = await tx.query<{ has_keys: boolean; had_keys: boolean }>(
    `select exists (select from identity.api_keys k where k.user_id = $1 and ${isLiveKey}) as has_keys,
            exists (select from identity.api_keys where user_id = $1 and not is_invitation) as had_keys`,
    [id],
  )
  if (!row?.had_keys || row.has_keys) return row?.has_keys === true
  const others = await tx.query<{ hands: readonly string[] }>(
    `select u.id || u.issuers as hands from identity.users u
      where u.org_id = $1 and u.id not in ($2, $3) and u.role = 'admin' and u.deactivated_at is null
        and (u.external_id not like 'local:%' or exists (select from identity.api_keys k
              where k.user_id = u.id and k.role = 'admin' and k.workspace_id is null and ${isLiveKey}))`,
    [org_id, id, made.made_by],
  )
  return others.some(({ hands }) => findTie(deps, made, hands) === undefined)
}

/** The invitation of a person that waits for a yes. */
export async function findHeldInvitation(sql: Sql, orgId: string, userId: string): Promise<HeldInvitation | undefined> {
  const [row] = await sql.query<HeldInvitation>(
    `select id, issuers[1] as made_by, issuers from identity.api_keys
      where org_id = $1 and user_id = $2 and is_held and revoked_at is null and expires_at > statement_timestamp()`,
    [orgId, userId],
  )
  return row
}

/** The yes to a held invitation: it revokes the keys of the person and lets the invitation be redeemed. */
export async function confirmInvitation(
  deps: IdentityDeps,
  actor: PersonActor,
  userId: string,
): Promise<Decision<{ readonly changed: boolean }>> {
  const { principal } = actor
  const allowed = principal.userId === userId ? accept(null) : decideAdministers(principal)
  if (!allowed.ok) return allowed
  return deps.db.transaction(async (tx) => {
    await lockPeople(tx, principal.orgId)
    const person = await findPerson(tx, principal.orgId, userId)
    if (!person) return refusePerson('user_id')
    const held = await findHeldInvitation(tx, principal.orgId, userId)
    if (!held) return accept({ changed: false })
    if (held.made_by === principal.userId) {
      return refuse('identity.invitation.own', 'You made this invitation, so somebody else must agree to it.', {
        hint: 'The person agrees with their own key, or another administrator does.',
      })
    }
    const tie = principal.userId === userId ? undefined : findTie(deps, held, await handsOf(tx, actor))
    if (tie !== undefined) {
      return refuse('identity.invitation.not_independent', tie, {
        hint: 'The person agrees with their own key, or an administrator whom neither of you invited does.',
      })
    }
    const ended = await revokeKeysOf(tx, person.org_id, userId, deps.now(), 'keys')
    await tx.query('update identity.api_keys set is_held = false where id = $1', [held.id])
    const payload = { user_id: userId, key_id: held.id, made_by: held.made_by, keys_ended: ended }
    await appendOrgEvent(tx, deps, actor, { type: 'invitation_confirmed', orgId: person.org_id, payload })
    return accept({ changed: true })
  })
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
    const { issuers, ...owner } = spent
    await saveIssuers(tx, owner.user_id, issuers)
    const created = await issueKey(tx, deps, { ...owner, name: 'first key', created_at: now })
    const actor: Actor = { id: `user:${spent.user_id}`, kind: 'user', traceId }
    const payload = { user_id: spent.user_id, key_id: created.stored.id }
    await appendOrgEvent(tx, deps, actor, { type: 'invitation_redeemed', orgId: spent.org_id, payload })
    await appendKeyEvent(tx, deps, actor, 'api_key_created', created.stored)
    return accept(created)
  })
}
