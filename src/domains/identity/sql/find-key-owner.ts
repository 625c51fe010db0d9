/** Authentication in one statement: the key with its user, the org and the org roles, by the key's visible prefix. */
import { statement } from '#store'
import type { PlatformRole } from '../platform-role.ts'

export type KeyOwnerRow = {
  readonly key_id: string
  readonly key_hash: Buffer
  readonly key_role: PlatformRole
  readonly workspace_id: string | null
  /** Neither ended nor revoked, by the clock of the database; no invitation, and nobody who has left. */
  readonly is_live: boolean
  readonly last_used_at: Date | null
  readonly user_id: string
  readonly org_id: string
  readonly org_slug: string
  readonly external_id: string
  readonly email: string | null
  readonly user_role: PlatformRole
  readonly org_roles: readonly string[]
}

/** The roles are an array sub-select: a join would repeat the wide row once per role. */
export const findKeyOwner = statement<KeyOwnerRow>(
  'identity.find_key_owner',
  `select k.id as key_id, k.key_hash, k.role as key_role, k.workspace_id, k.last_used_at,
          k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp())
            and not k.is_invitation and u.deactivated_at is null as is_live,
          u.id as user_id, u.org_id, o.slug as org_slug, u.external_id, u.email, u.role as user_role,
          array(select r.slug
                  from identity.org_role_memberships m
                  join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
                 where m.user_id = u.id and m.org_id = u.org_id
                 order by r.slug) as org_roles
     from identity.api_keys k
     join identity.users u on u.org_id = k.org_id and u.id = k.user_id
     join identity.orgs o on o.id = u.org_id
    where k.prefix = $1`,
)
