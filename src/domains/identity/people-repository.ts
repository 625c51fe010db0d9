/** The only writer of what happens to people after they were created: their role, their leaving and coming back, their invitations. */
import type { Sql, Tx } from '#store'
import type { StoredUser } from './identity-repository.ts'
import type { PlatformRole } from './platform-role.ts'

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
export function listPersons(sql: Sql, orgId: string, { beforeId, limit }: PeoplePage): Promise<StoredPerson[]> {
  return sql.query<StoredPerson>(
    `select ${PERSON} from identity.users as u
      where u.org_id = $1 and ($2::uuid is null or u.id < $2) order by u.id desc limit $3`,
    [orgId, beforeId, limit],
  )
}

export async function hasOtherAdmin(tx: Tx, orgId: string, userId: string): Promise<boolean> {
  const [row] = await tx.query<{ found: boolean }>(
    `select exists (select from identity.users
      where org_id = $1 and id <> $2 and role = 'admin' and deactivated_at is null) as found`,
    [orgId, userId],
  )
  return row?.found === true
}

export async function savePlatformRole(tx: Tx, orgId: string, userId: string, role: PlatformRole): Promise<boolean> {
  const rows = await tx.query(
    'update identity.users set role = $3 where org_id = $1 and id = $2 and role <> $3 returning id',
    [orgId, userId, role],
  )
  return rows.length === 1
}

/** A time, or null for somebody who comes back. False when it was so already. */
export async function saveDeactivated(tx: Tx, orgId: string, userId: string, at: Date | null): Promise<boolean> {
  const rows = await tx.query(
    `update identity.users set deactivated_at = $3
      where org_id = $1 and id = $2 and (deactivated_at is null) = ($3::timestamptz is not null) returning id`,
    [orgId, userId, at],
  )
  return rows.length === 1
}

/**
 * Ends every key and invitation of a person; returns how many there were. First the person: whoever is just making a key for them
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
