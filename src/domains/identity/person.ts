/** The only writer of what happens to people after they were created: their role, their leaving and coming back, their invitations. */
import type { Actor, Principal } from '#kernel/actor'
import { parseName } from '#contract'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { isUuid } from '#kernel/ids'
import type { Sql, Tx } from '#store'
import { byPrincipal, type IdentityDeps } from './deps.ts'
import { appendOrgEvent } from './events.ts'
import { findOrg, insertUser, type StoredOrgRole, type StoredUser } from './identity-repository.ts'
import { authorize, decideUnbound, isRoleAtLeast, type PlatformRole } from './principal.ts'

export type StoredPerson = StoredUser & {
  readonly deactivated_at: Date | null
  /** Slugs of the org roles, in order. */
  readonly org_roles: readonly string[]
}

const PERSON = `u.id, u.org_id, u.external_id, u.email, u.role, u.created_at, u.deactivated_at,
  array(select r.slug from identity.org_role_memberships m join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
         where m.user_id = u.id and m.org_id = u.org_id order by r.slug) as org_roles`

/** Changes of the people of one org take turns, so that two administrators cannot put each other out at the same moment. */
export async function lockPeople(tx: Tx, orgId: string): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('concord.identity.people:' || $1, 0))", [orgId])
}

export async function findPerson(sql: Sql, orgId: string, userId: string): Promise<StoredPerson | undefined> {
  const [row] = await sql.query<StoredPerson>(
    `select ${PERSON} from identity.users as u where u.org_id = $1 and u.id = $2`,
    [orgId, userId],
  )
  return row
}

export type PeoplePage = { readonly beforeId: string | null; readonly limit: number }

/** Newest first: ids rise with time. */
function listPersons(sql: Sql, orgId: string, { beforeId, limit }: PeoplePage): Promise<StoredPerson[]> {
  return sql.query<StoredPerson>(
    `select ${PERSON} from identity.users as u
      where u.org_id = $1 and ($2::uuid is null or u.id < $2) order by u.id desc limit $3`,
    [orgId, beforeId, limit],
  )
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
 * Ends every key and invitation of a person; returns how many there were. First the person: a request that is creating a key for them
 * (`holdPerson`) is waited for, so that the statement after it sees that key too.
 */
export async function revokeKeysOf(tx: Tx, orgId: string, userId: string, at: Date): Promise<number> {
  await tx.query('select 1 from identity.users where org_id = $1 and id = $2 for update', [orgId, userId])
  const rows = await tx.query(
    'update identity.api_keys set revoked_at = $3 where org_id = $1 and user_id = $2 and revoked_at is null returning id',
    [orgId, userId, at],
  )
  return rows.length
}

/** Before a key is made for somebody: nobody ends their keys until it is there. Undefined: there is no such person, or they have left. */
export async function holdPerson(tx: Tx, orgId: string, userId: string): Promise<PlatformRole | undefined> {
  const [row] = await tx.query<{ role: PlatformRole }>(
    `select role from identity.users where org_id = $1 and id = $2 and deactivated_at is null for key share`,
    [orgId, userId],
  )
  return row?.role
}

/** Under `holdPerson`. False: this key was ended after its bearer was let in with it. */
export async function holdKey(tx: Tx, orgId: string, keyId: string): Promise<boolean> {
  const rows = await tx.query(
    'select 1 from identity.api_keys where org_id = $1 and id = $2 and revoked_at is null for share',
    [orgId, keyId],
  )
  return rows.length === 1
}

export type Redeemed = { readonly org_id: string; readonly user_id: string; readonly role: PlatformRole }

/** One statement spends the invitation: of two callers one gets the row. A person who left gets none. */
export async function spendInvitation(tx: Tx, hash: Uint8Array, at: Date): Promise<Redeemed | undefined> {
  // The person before the key, as everywhere: the other way round two of them would wait for each other.
  const [whose] = await tx.query<{ org_id: string; user_id: string }>(
    'select org_id, user_id from identity.api_keys where key_hash = $1 and is_invitation',
    [hash],
  )
  if (!whose || (await holdPerson(tx, whose.org_id, whose.user_id)) === undefined) return undefined
  const [row] = await tx.query<Redeemed>(
    `update identity.api_keys as k set revoked_at = $2 from identity.users as u
      where k.key_hash = $1 and k.is_invitation and k.revoked_at is null and k.expires_at > statement_timestamp()
        and u.org_id = k.org_id and u.id = k.user_id and u.deactivated_at is null
      returning k.org_id, k.user_id, u.role`,
    [hash, at],
  )
  return row
}

/** People belong to the whole organisation: a key of one workspace does not reach them. */
export function decideAdministers(by: Pick<Principal, 'role' | 'workspaceId'>): Decision<null> {
  const allowed = authorize(by, 'admin')
  return allowed.ok ? decideUnbound(by) : allowed
}

/** Roles, leaving and coming back are given by somebody else: nobody raises himself, and a slip does not lock him out. */
export function decideOther(
  by: Pick<Principal, 'role' | 'workspaceId' | 'userId'>,
  userId: string,
  what: string,
): Decision<null> {
  const allowed = decideAdministers(by)
  if (!allowed.ok || by.userId !== userId) return allowed
  return refuse('identity.user.self', `Nobody ${what} himself.`, { hint: 'Ask another administrator.' })
}

/** Asked under the lock of the org's people. */
function decideKeepsAdmin(losesAdmin: boolean, hasOther: boolean): Decision<null> {
  if (!losesAdmin || hasOther) return accept(null)
  return refuse('identity.user.last_admin', 'This is the last administrator of the organisation.', {
    hint: 'Make another person an administrator first.',
  })
}

/** Creates a user in an organisation; an identity belongs to exactly one, over all organisations (I1). */
export type CreateUser = {
  readonly orgId: string
  /** Subject at the identity provider, or `local:<name>` for someone who signs in with keys alone. */
  readonly externalId: string
  readonly email?: string | null
  readonly role: PlatformRole
}

const EMAIL = /^[^\s@]{1,64}@[^\s@]{1,190}$/

export function createUser(deps: IdentityDeps, by: Actor, input: CreateUser): Promise<Decision<StoredUser>> {
  return deps.db.transaction((tx) => addUser(tx, deps, by, input))
}

/** The same inside a transaction of the caller. */
export async function addUser(tx: Tx, deps: IdentityDeps, by: Actor, input: CreateUser): Promise<Decision<StoredUser>> {
  const externalId = parseName(input.externalId, 255)
  if (!externalId.ok) return { ...externalId, path: 'external_id' }
  const email = input.email ?? null
  if (email !== null && !EMAIL.test(email)) {
    return refuse('api.field.value', `${quote(email)} is not an e-mail address`, { path: 'email' })
  }
  if (!isRoleAtLeast(input.role, 'reader')) {
    return refuse('api.field.value', 'This platform role does not exist.', { path: 'role' })
  }
  if (!(await findOrg(tx, input.orgId))) return refuse('identity.org.not_found', 'There is no such organisation.')
  const user = await insertUser(tx, {
    id: deps.newId(),
    org_id: input.orgId,
    external_id: externalId.value,
    email,
    role: input.role,
    created_at: deps.now(),
  })
  if (!user) {
    return refuse('identity.user.external_id_taken', 'This identity already belongs to an organisation.', {
      path: 'external_id',
    })
  }
  const payload = { user_id: user.id, role: user.role }
  await appendOrgEvent(tx, deps, by, { type: 'user_created', orgId: user.org_id, payload })
  return accept(user)
}

/** Changes what a person may do, or ends it: both by another administrator, both on record, neither for the last administrator. */
export type SetPlatformRole = { readonly userId: string; readonly role: PlatformRole }

/** Keys keep the role they were made with and count for no more than the person has: a demotion reaches them at once. */
export async function setPlatformRole(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  { userId, role }: SetPlatformRole,
): Promise<Decision<StoredPerson>> {
  const allowed = decideOther(by, userId, 'changes the role of')
  if (!allowed.ok) return allowed
  if (!isRoleAtLeast(role, 'reader')) {
    return refuse('api.field.value', 'This platform role does not exist.', { path: 'role' })
  }
  return deps.db.transaction(async (tx) => {
    await lockPeople(tx, by.orgId)
    const person = await findPerson(tx, by.orgId, userId)
    if (!person) return refuse('identity.user.not_found', 'There is no such person.', { path: 'user_id' })
    const loses = person.role === 'admin' && person.deactivated_at === null && role !== 'admin'
    const keeps = decideKeepsAdmin(loses, await hasOtherAdmin(tx, by.orgId, userId))
    if (!keeps.ok) return keeps
    if (await savePlatformRole(tx, by.orgId, userId, role)) {
      const payload = { user_id: userId, from: person.role, to: role }
      await appendOrgEvent(tx, deps, byPrincipal(by, traceId), { type: 'user_role_changed', orgId: by.orgId, payload })
    }
    return accept({ ...person, role })
  })
}

export type DeactivatePerson = { readonly userId: string; readonly reason?: string | undefined }

/** Nothing is deleted: what they decided keeps their name. Their keys end now and stay ended when they come back. */
export async function deactivatePerson(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  { userId, reason }: DeactivatePerson,
): Promise<Decision<StoredPerson>> {
  const allowed = decideOther(by, userId, 'deactivates')
  if (!allowed.ok) return allowed
  return deps.db.transaction(async (tx) => {
    await lockPeople(tx, by.orgId)
    const person = await findPerson(tx, by.orgId, userId)
    if (!person) return refuse('identity.user.not_found', 'There is no such person.', { path: 'user_id' })
    const loses = person.role === 'admin' && person.deactivated_at === null
    const keeps = decideKeepsAdmin(loses, await hasOtherAdmin(tx, by.orgId, userId))
    if (!keeps.ok) return keeps
    const now = deps.now()
    // The first time stands.
    if (!(await saveDeactivated(tx, by.orgId, userId, now))) return accept(person)
    const ended = await revokeKeysOf(tx, by.orgId, userId, now)
    const payload = { user_id: userId, keys_ended: ended, reason: reason === undefined ? null : redactText(reason) }
    await appendOrgEvent(tx, deps, byPrincipal(by, traceId), { type: 'user_deactivated', orgId: by.orgId, payload })
    return accept({ ...person, deactivated_at: now })
  })
}

/** Lists the people and the roles of an organisation, and who may enter a workspace. */
export function listPeople(deps: { readonly db: Sql }, orgId: string, page: PeoplePage): Promise<StoredPerson[]> {
  return listPersons(deps.db, orgId, page)
}

export type OrgRolePage = { readonly afterSlug: string | null; readonly limit: number }

export function listOrgRoles(
  deps: { readonly db: Sql },
  orgId: string,
  { afterSlug, limit }: OrgRolePage,
): Promise<StoredOrgRole[]> {
  return deps.db.query<StoredOrgRole>(
    `select id, org_id, slug, name from identity.org_roles
      where org_id = $1 and ($2::text is null or slug > $2) order by slug limit $3`,
    [orgId, afterSlug, limit],
  )
}

/** Actor user id; people of other organisations have no name here. */
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
