/** A person of a workspace as they stand today: role, org roles, and whether they may still enter. */
import type { Principal } from '#kernel/actor'
import { decodeId, isUuid } from '#kernel/ids'
import { type Sql, statement } from '#store'
import { findOrgBySlug, findWorkspaceBySlug } from './identity-repository.ts'
import { lowerRole, type PlatformRole } from './principal.ts'
import type { SubjectRow } from './authenticate.ts'

/** $1 user, $2 workspace. No row when the person left, or the workspace is archived or closed to them. */
const findMemberRow = statement<SubjectRow>(
  'identity.find_member',
  `select u.id as user_id, u.org_id, o.slug as org_slug, u.external_id, u.email, u.role as user_role,
          array(select r.slug
                  from identity.org_role_memberships m
                  join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
                 where m.user_id = u.id and m.org_id = u.org_id
                 order by r.slug) as org_roles
     from identity.users u
     join identity.orgs o on o.id = u.org_id
     join identity.workspaces w on w.org_id = u.org_id
    where u.id = $1::uuid and u.deactivated_at is null and w.id = $2::uuid and w.archived_at is null
      and (w.access_role_id is null or w.owner_user_id = u.id
           or exists (select from identity.org_role_memberships m
                       where m.org_id = w.org_id and m.role_id = w.access_role_id and m.user_id = u.id))`,
)

/** For work that happens later in somebody's name: who that person is today, and which workspace an installation calls its own. */
export type Member = {
  readonly userId: string
  readonly workspaceId: string
  /** What the person was allowed when it was asked for; today's role counts only below it. */
  readonly roleMax: PlatformRole
}

/** Undefined: not of this workspace, or not any more. */
export async function findMember(sql: Sql, { userId, workspaceId, roleMax }: Member): Promise<Principal | undefined> {
  const [row] = await sql.run(findMemberRow, [userId, workspaceId])
  if (!row) return undefined
  return {
    credential: 'api_key',
    userId: row.user_id,
    orgId: row.org_id,
    orgSlug: row.org_slug,
    externalId: row.external_id,
    email: row.email,
    role: lowerRole(row.user_role, roleMax),
    orgRoles: row.org_roles,
    keyId: null,
    workspaceId,
  }
}

/** The org that the first start makes. */
const HOME_ORG = 'default'

/** The id of a workspace that configuration names: by its id, or by its short name in the installation's own org. */
export async function findHomeWorkspace(sql: Sql, named: string): Promise<string | undefined> {
  const decoded = decodeId('workspace', named)
  if (decoded.ok) {
    const [row] = await sql.query<{ id: string }>(
      'select id from identity.workspaces where id = $1 and archived_at is null',
      [decoded.value],
    )
    return row?.id
  }
  const org = await findOrgBySlug(sql, HOME_ORG)
  return org && (await findWorkspaceBySlug(sql, org.id, named))?.id
}

/** Persons of a workspace who may act there today: not gone, let in, and more than readers. */
type ActiveRow = {
  readonly user_id: string
  readonly external_id: string
  readonly role: 'writer' | 'admin'
  readonly org_roles: readonly string[]
}

/** $1 workspace, $2 users, $3 slugs of org roles, $4 also every administrator. The rule of entering is that of `find_member`. */
const listActiveSql = statement<ActiveRow>(
  'identity.list_active',
  `select u.id as user_id, u.external_id, u.role,
          array(select r.slug
                  from identity.org_role_memberships m
                  join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
                 where m.user_id = u.id and m.org_id = u.org_id) as org_roles
     from identity.workspaces w
     join identity.users u on u.org_id = w.org_id
    where w.id = $1::uuid and w.archived_at is null and u.deactivated_at is null and u.role in ('writer', 'admin')
      and (u.id = any ($2::uuid[]) or ($4::boolean and u.role = 'admin')
           or u.id in (select m.user_id
                         from identity.org_roles r
                         join identity.org_role_memberships m on m.org_id = r.org_id and m.role_id = r.id
                        where r.org_id = w.org_id and r.slug = any ($3::text[])))
      and (w.access_role_id is null or w.owner_user_id = u.id
           or exists (select from identity.org_role_memberships m
                       where m.org_id = w.org_id and m.role_id = w.access_role_id and m.user_id = u.id))
    order by u.id`,
)

/** Who of the persons and roles that are named may act in a workspace today. */
export type ActivePerson = {
  readonly userId: string
  readonly externalId: string
  readonly role: ActiveRow['role']
  readonly orgRoles: readonly string[]
}

export type NamedPersons = {
  readonly workspaceId: string
  readonly userIds: Iterable<string>
  readonly orgRoles: Iterable<string>
  /** Administrators too, named or not. */
  readonly admins?: boolean
}

/** Excludes people who left, may not enter, or only read. */
export async function listActive(
  sql: Sql,
  { workspaceId, userIds, orgRoles, admins = false }: NamedPersons,
): Promise<readonly ActivePerson[]> {
  const ids = [...new Set(userIds)].filter(isUuid)
  const rows = await sql.run(listActiveSql, [workspaceId, ids, [...new Set(orgRoles)], admins])
  return rows.map(({ user_id, external_id, role, org_roles }) => ({
    userId: user_id,
    externalId: external_id,
    role,
    orgRoles: org_roles,
  }))
}
