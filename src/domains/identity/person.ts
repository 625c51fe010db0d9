/** People: their role, deactivation and keys. */
import type { Actor, PersonActor, Principal } from '#kernel/actor'
import { parseName } from '#contract'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { isUuid } from '#kernel/ids'
import { type Paged, pageText, type Sql, type Tx } from '#store'
import type { IdentityDeps } from './deps.ts'
import { appendOrgEvent } from './events.ts'
import { findOrg, insertUser, ORG_ROLE, type StoredOrgRole, type StoredUser } from './identity-repository.ts'
import { ORG_ROLES } from './member.ts'
import { authorize, decideUnbound, isRoleAtLeast, type PlatformRole, refusePerson } from './principal.ts'

export type StoredPerson = StoredUser & {
  readonly deactivated_at: Date | null
  /** Slugs, sorted. */
  readonly org_roles: readonly string[]
}

const PERSON = `u.id, u.org_id, u.external_id, u.email, u.role, u.created_at, u.deactivated_at, ${ORG_ROLES}`

export async function findPerson(sql: Sql, orgId: string, userId: string): Promise<StoredPerson | undefined> {
  const [row] = await sql.query<StoredPerson>(
    `select ${PERSON} from identity.users as u where u.org_id = $1 and u.id = $2`,
    [orgId, userId],
  )
  return row
}

async function hasOtherAdmin(tx: Tx, orgId: string, userId: string): Promise<boolean> {
  const [row] = await tx.query<{ found: boolean }>(
    `select exists (select from identity.users
      where org_id = $1 and id <> $2 and role = 'admin' and deactivated_at is null) as found`,
    [orgId, userId],
  )
  return row?.found === true
}

async function savePlatformRole(tx: Tx, orgId: string, userId: string, role: PlatformRole): Promise<boolean> {
  const rows = await tx.query(
    'update identity.users set role = $3 where org_id = $1 and id = $2 and role <> $3 returning id',
    [orgId, userId, role],
  )
  return rows.length === 1
}

/** A time, or null to reactivate. Returns false if nothing changed. */
export async function saveDeactivated(tx: Tx, orgId: string, userId: string, at: Date | null): Promise<boolean> {
  const rows = await tx.query(
    `update identity.users set deactivated_at = $3
      where org_id = $1 and id = $2 and (deactivated_at is null) = ($3::timestamptz is not null) returning id`,
    [orgId, userId, at],
  )
  return rows.length === 1
}

/**
 * Revokes every key and invitation of a person and returns their number. Locks the person first: it waits for a request that is
 * creating a key for them (`holdPerson`), so that the second statement also sees that key.
 */
export async function revokeKeysOf(
  tx: Tx,
  orgId: string,
  userId: string,
  at: Date,
  which: 'all' | 'keys' | 'invitations' = 'all',
): Promise<number> {
  await tx.query('select 1 from identity.users where org_id = $1 and id = $2 for update', [orgId, userId])
  const rows = await tx.query(
    `update identity.api_keys set revoked_at = $3
      where org_id = $1 and user_id = $2 and revoked_at is null and ($4 = 'all' or is_invitation = ($4 = 'invitations')) returning id`,
    [orgId, userId, at, which],
  )
  return rows.length
}

/** Before a key is created: nobody revokes the keys of the person until it exists. Returns undefined for a person who left or is unknown. */
export async function holdPerson(tx: Tx, orgId: string, userId: string): Promise<PlatformRole | undefined> {
  const [row] = await tx.query<{ role: PlatformRole }>(
    `select role from identity.users where org_id = $1 and id = $2 and deactivated_at is null for key share`,
    [orgId, userId],
  )
  return row?.role
}

/** Under `holdPerson`. Returns false when the key was revoked after it authenticated its bearer. */
export async function holdKey(tx: Tx, orgId: string, keyId: string): Promise<boolean> {
  const rows = await tx.query(
    'select 1 from identity.api_keys where org_id = $1 and id = $2 and revoked_at is null for share',
    [orgId, keyId],
  )
  return rows.length === 1
}

/**
 * The person who acts, and everybody through whose hands the credentials of that person came: what they issue or grant came through the
 * hands of all of them. Empty for Concord itself.
 */
export async function handsOf(tx: Tx, { principal }: Actor): Promise<readonly string[]> {
  if (!principal) return []
  const [row] = await tx.query<{ issuers: readonly string[] }>('select issuers from identity.users where id = $1', [
    principal.userId,
  ])
  return [...new Set([principal.userId, ...(row?.issuers ?? [])])]
}

/** The credentials of the person now come from an invitation. */
export async function saveIssuers(tx: Tx, userId: string, issuers: readonly string[]): Promise<void> {
  await tx.query('update identity.users set issuers = $2 where id = $1 and issuers <> $2', [userId, issuers])
}

export type Redeemed = {
  readonly org_id: string
  readonly user_id: string
  readonly role: PlatformRole
  readonly issuers: readonly string[]
}

/** One statement spends the invitation, so that only one of two callers gets the row. A person who left gets none. */
export async function spendInvitation(tx: Tx, hash: Uint8Array, at: Date): Promise<Redeemed | undefined> {
  // The person is locked before the key, as everywhere; the reverse order could deadlock.
  const [whose] = await tx.query<{ org_id: string; user_id: string }>(
    'select org_id, user_id from identity.api_keys where key_hash = $1 and is_invitation',
    [hash],
  )
  if (!whose || (await holdPerson(tx, whose.org_id, whose.user_id)) === undefined) return undefined
  const [row] = await tx.query<Redeemed>(
    `update identity.api_keys as k set revoked_at = $2 from identity.users as u
      where k.key_hash = $1 and k.is_invitation and not k.is_held and k.revoked_at is null and k.expires_at > statement_timestamp()
        and u.org_id = k.org_id and u.id = k.user_id and u.deactivated_at is null
      returning k.org_id, k.user_id, u.role, k.issuers`,
    [hash, at],
  )
  return row
}

/** People belong to the whole organisation, so a key that is bound to one workspace cannot administer them. */
export function decideAdministers(by: Pick<Principal, 'role' | 'workspaceId'>): Decision<null> {
  const allowed = authorize(by, 'admin')
  return allowed.ok ? decideUnbound(by) : allowed
}

/** I10: nobody raises their own role or locks themselves out by mistake. */
export function decideOther(
  by: Pick<Principal, 'role' | 'workspaceId' | 'userId'>,
  userId: string,
  verb: string,
): Decision<null> {
  const allowed = decideAdministers(by)
  if (!allowed.ok || by.userId !== userId) return allowed
  return refuse('identity.user.self', `You cannot ${verb} yourself.`, { hint: 'Ask another administrator.' })
}

/** Under the lock of the people of the org: one active administrator always remains (I10). */
async function decideKeepsAdmin(tx: Tx, person: StoredPerson): Promise<Decision<null>> {
  const isAdmin = person.role === 'admin' && person.deactivated_at === null
  if (!isAdmin || (await hasOtherAdmin(tx, person.org_id, person.id))) return accept(null)
  return refuse('identity.user.last_admin', 'This is the last administrator of the organisation.', {
    hint: 'Make another person an administrator first.',
  })
}

/** An identity belongs to exactly one organisation (I1). */
export type CreateUser = {
  readonly orgId: string
  /** The subject at the identity provider, or `local:<name>` for a person who signs in with keys only. */
  readonly externalId: string
  readonly email?: string | null
  readonly role: PlatformRole
}

const PART = '[^\\s@\\u0000]'
export const emailForm = new RegExp(`^${PART}{1,64}@${PART}{1,190}$`, 'u')

export function parseEmail(text: string): Decision<string> {
  if (emailForm.test(text)) return accept(text)
  return refuse('api.field.value', `${quote(text)} is not an e-mail address.`, {
    path: 'email',
    hint: 'Send name@domain.',
  })
}

export function createUser(deps: IdentityDeps, actor: Actor, input: CreateUser): Promise<Decision<StoredUser>> {
  return deps.db.transaction((tx) => addUser(tx, deps, actor, input))
}

/** Creates the user in the transaction of the caller. */
export async function addUser(
  tx: Tx,
  deps: IdentityDeps,
  actor: Actor,
  input: CreateUser,
): Promise<Decision<StoredUser>> {
  const externalId = parseName(input.externalId, 255)
  if (!externalId.ok) return { ...externalId, path: 'external_id' }
  const email = input.email == null ? accept(null) : parseEmail(input.email)
  if (!email.ok) return email
  if (!isRoleAtLeast(input.role, 'reader')) {
    return refuse('api.field.value', 'This platform role does not exist.', { path: 'role' })
  }
  if (!(await findOrg(tx, input.orgId))) return refuse('identity.org.not_found', 'There is no such organisation.')
  const user = await insertUser(tx, {
    id: deps.newId(),
    org_id: input.orgId,
    external_id: externalId.value,
    email: email.value,
    role: input.role,
    created_at: deps.now(),
  })
  if (!user) {
    return refuse('identity.user.external_id_taken', 'This identity already belongs to an organisation.', {
      path: 'external_id',
    })
  }
  const payload = { user_id: user.id, role: user.role }
  await appendOrgEvent(tx, deps, actor, { type: 'user_created', orgId: user.org_id, payload })
  return accept(user)
}

/** Two administrators cannot remove each other at the same moment. */
export async function lockPeople(tx: Tx, orgId: string): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('concord.identity.people:' || $1, 0))", [orgId])
}

/**
 * Changes another person under the lock of the people of the org. Refuses a caller who is not an administrator, the caller's own
 * user, and an unknown person.
 */
export async function changePerson<T>(
  deps: IdentityDeps,
  { principal }: PersonActor,
  { userId, verb }: { readonly userId: string; readonly verb: string },
  change: (tx: Tx, person: StoredPerson) => Promise<Decision<T>>,
): Promise<Decision<T>> {
  const allowed = decideOther(principal, userId, verb)
  if (!allowed.ok) return allowed
  return deps.db.transaction(async (tx) => {
    await lockPeople(tx, principal.orgId)
    const person = await findPerson(tx, principal.orgId, userId)
    return person ? change(tx, person) : refusePerson('user_id')
  })
}

export type SetPlatformRole = { readonly userId: string; readonly role: PlatformRole }

/** A key never has more rights than its person, so a demotion takes effect on existing keys immediately. */
export async function setPlatformRole(
  deps: IdentityDeps,
  actor: PersonActor,
  { userId, role }: SetPlatformRole,
): Promise<Decision<StoredPerson>> {
  return changePerson(deps, actor, { userId, verb: 'change the role of' }, async (tx, person) => {
    if (!isRoleAtLeast(role, 'reader')) {
      return refuse('api.field.value', 'This platform role does not exist.', { path: 'role' })
    }
    const keeps = role === 'admin' ? accept(null) : await decideKeepsAdmin(tx, person)
    if (!keeps.ok) return keeps
    if (await savePlatformRole(tx, person.org_id, userId, role)) {
      const payload = { user_id: userId, from: person.role, to: role }
      await appendOrgEvent(tx, deps, actor, { type: 'user_role_changed', orgId: person.org_id, payload })
    }
    return accept({ ...person, role })
  })
}

export type DeactivatePerson = { readonly userId: string; readonly reason?: string | undefined }

/** Nothing is deleted: past decisions keep the name. The keys end now and stay ended when the person returns. */
export async function deactivatePerson(
  deps: IdentityDeps,
  actor: PersonActor,
  { userId, reason }: DeactivatePerson,
): Promise<Decision<StoredPerson>> {
  return changePerson(deps, actor, { userId, verb: 'deactivate' }, async (tx, person) => {
    const orgId = person.org_id
    const keeps = await decideKeepsAdmin(tx, person)
    if (!keeps.ok) return keeps
    const now = deps.now()
    // A second call keeps the first time.
    if (!(await saveDeactivated(tx, orgId, userId, now))) return accept(person)
    const ended = await revokeKeysOf(tx, orgId, userId, now)
    const payload = { user_id: userId, keys_ended: ended, reason: reason === undefined ? null : redactText(reason) }
    await appendOrgEvent(tx, deps, actor, { type: 'user_deactivated', orgId, payload })
    return accept({ ...person, deactivated_at: now })
  })
}

export type PeoplePage = { readonly beforeId: string | null; readonly limit: number }

/** Newest first, since ids increase with time. */
export function listPeople(
  deps: { readonly db: Sql },
  orgId: string,
  { beforeId, limit }: PeoplePage,
): Promise<(StoredPerson & Paged)[]> {
  return deps.db.query(
    pageText(`select ${PERSON} from identity.users as u
      where u.org_id = $1 and ($2::uuid is null or u.id < $2) order by u.id desc limit $3`),
    [orgId, beforeId, limit],
  )
}

export type OrgRolePage = { readonly afterSlug: string | null; readonly limit: number }

export function listOrgRoles(
  deps: { readonly db: Sql },
  orgId: string,
  { afterSlug, limit }: OrgRolePage,
): Promise<(StoredOrgRole & Paged)[]> {
  return deps.db.query(
    pageText(`select ${ORG_ROLE} from identity.org_roles
      where org_id = $1 and ($2::text is null or slug > $2) order by slug limit $3`),
    [orgId, afterSlug, limit],
  )
}

/** By user id, without people of other organisations. */
export type Names = ReadonlyMap<string, string>

export async function listNames(sql: Sql, orgId: string, userIds: Iterable<string>): Promise<Names> {
  const ids = [...new Set(userIds)].filter(isUuid)
  if (ids.length === 0) return new Map()
  const rows = await sql.query<{ id: string; external_id: string }>(
    'select id, external_id from identity.users where org_id = $1 and id = any($2::uuid[])',
    [orgId, ids],
  )
  return new Map(rows.map(({ id, external_id }) => [id, external_id]))
}
