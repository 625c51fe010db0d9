/** The SQL of a person and of access to a workspace; the people of a workspace as they are now. */
import type { Principal } from '#kernel/actor'
import { decodeId, isUuid } from '#kernel/ids'
import { type Sql, statement } from '#store'
import { findOrgBySlug, findWorkspaceBySlug } from './identity-repository.ts'
import { lowerRole, type PlatformRole } from './principal.ts'

/** The slugs of the org roles of a user: a sub-select, because a join would repeat the wide row once per role. */
const orgRolesOf = (user: string) => `array(select r.slug
                  from identity.org_role_memberships m
                  join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
                 where m.user_id = ${user}.id and m.org_id = ${user}.org_id
                 order by r.slug)`

/** Of user `u`. */
export const ORG_ROLES = `${orgRolesOf('u')} as org_roles`

type OwnOrigins = {
  /** Everybody through whose hands the credentials of the person came. */
  readonly issuers: readonly string[]
  /** The org roles of the person: through whose hands they came, and when. */
  readonly grants: readonly { readonly role: string; readonly by: readonly string[]; readonly at: string }[]
}

/** A person in whose place another may decide: who may act in the workspace now, through whose hands the delegation came, and when. */
type Represented = {
  readonly user_id: string
  readonly external_id: string
  readonly org_roles: readonly string[]
  readonly origins: OwnOrigins
  readonly by: readonly string[]
  readonly at: string
}

/** What shows whether a person decides independently of somebody else, and in whose place. */
export type Origins = OwnOrigins & { readonly stands_for: readonly Represented[] }

const ownOrigins = (user: string) => `'issuers', ${user}.issuers, 'grants', coalesce((
            select json_agg(json_build_object('role', r.slug, 'by', m.granted_by, 'at', m.created_at))
              from identity.org_role_memberships m
              join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
             where m.user_id = ${user}.id and m.org_id = ${user}.org_id), '[]')`

/** The origins of user `u`, as JSON. A stand-in has no share in what the represented person has by delegation. */
const originsIn = (workspaceId: string) => `json_build_object(${ownOrigins('u')}, 'stands_for', coalesce((
            select json_agg(json_build_object('user_id', p.id, 'external_id', p.external_id, 'org_roles', ${orgRolesOf('p')},
                     'origins', json_build_object(${ownOrigins('p')}), 'by', d.made_by, 'at', d.created_at) order by d.id)
              from identity.delegations d
              join identity.users p on p.org_id = d.org_id and p.id = d.from_user_id
              join identity.workspaces w on w.org_id = p.org_id and w.id = ${workspaceId} and w.archived_at is null
             where d.to_user_id = u.id and d.ended_at is null and d.until > statement_timestamp()
               and p.deactivated_at is null and p.role <> 'reader' and ${mayEnter('p.id')}), '[]'))`

/** A column with the origins of a person in a workspace; null if there is no such person. */
export const originsColumn = (userId: string, workspaceId: string) =>
  `(select ${originsIn(workspaceId)} from identity.users u where u.id = ${userId})`

/** $1 user, $2 workspace. */
const findOriginsSql = statement<{ readonly origins: Origins | null }>(
  'identity.find_origins',
  `select ${originsColumn('$1::uuid', '$2::uuid')} as origins`,
)

export async function findOrigins(sql: Sql, userId: string, workspaceId: string): Promise<Origins | undefined> {
  const [row] = await sql.run(findOriginsSql, [userId, workspaceId])
  return row?.origins ?? undefined
}

/** User `u` with org `o`. */
export const SUBJECT = `u.id as user_id, u.org_id, o.slug as org_slug, u.external_id, u.email, u.role as user_role,
          ${ORG_ROLES}`

export type SubjectRow = {
  readonly user_id: string
  readonly org_id: string
  readonly org_slug: string
  readonly external_id: string
  readonly email: string | null
  readonly user_role: PlatformRole
  readonly org_roles: readonly string[]
}

/** The part of a principal that comes from the user. */
export function userOf(row: SubjectRow) {
  return {
    userId: row.user_id,
    orgId: row.org_id,
    orgSlug: row.org_slug,
    externalId: row.external_id,
    email: row.email,
    orgRoles: row.org_roles,
  }
}

/** I7: the owner, the members of the access role, or everyone if workspace `w` has none. There is no case for administrators. */
export function mayEnter(userId: string): string {
  return `(w.access_role_id is null or w.owner_user_id = ${userId}
           or exists (select from identity.org_role_memberships m
                       where m.org_id = w.org_id and m.role_id = w.access_role_id and m.user_id = ${userId}))`
}

/** A condition: the user left, may only read, is no longer the administrator that `roleThen` says, or may not enter the workspace. */
export const hasLeft = (userId: string, workspaceId: string, roleThen: string): string =>
  `exists (select from identity.users u where u.id = ${userId}
      and (u.deactivated_at is not null or u.role = 'reader' or (u.role <> 'admin' and ${roleThen} = 'admin') or not exists (select from identity.workspaces w
             where w.id = ${workspaceId} and w.org_id = u.org_id and w.archived_at is null and ${mayEnter('u.id')})))`

/** A condition: the key `k` works in the workspace now, by the clock of the database. */
export const isLiveKey = (k: string, workspaceId: string): string =>
  `(${k}.revoked_at is null and (${k}.expires_at is null or ${k}.expires_at > statement_timestamp())
      and (${k}.workspace_id is null or ${k}.workspace_id = ${workspaceId}))`

/** No row when the person left, or when the workspace is archived or closed to them. */
const memberRow = (userId: string, workspaceId: string) =>
  `select ${SUBJECT}
     from identity.users u
     join identity.orgs o on o.id = u.org_id
     join identity.workspaces w on w.org_id = u.org_id
    where u.id = ${userId} and u.deactivated_at is null and w.id = ${workspaceId} and w.archived_at is null
      and ${mayEnter('u.id')}`

/** The same row as a column, or null: for a statement that reads more. */
export const memberColumn = (userId: string, workspaceId: string): string =>
  `(select to_jsonb(s) from (${memberRow(userId, workspaceId)}) as s)`

/** $1 user, $2 workspace. */
const findMemberRow = statement<SubjectRow>('identity.find_member', memberRow('$1::uuid', '$2::uuid'))

/** A person on whose behalf work runs later. */
export type Member = {
  readonly userId: string
  readonly workspaceId: string
  /** The role at the time of the request; the current role counts only if it is lower. */
  readonly roleMax: PlatformRole
}

/** Returns undefined for a person who does not, or no longer, belong to the workspace. */
export async function findMember(sql: Sql, { userId, workspaceId, roleMax }: Member): Promise<Principal | undefined> {
  const [row] = await sql.run(findMemberRow, [userId, workspaceId])
  return row && memberOf(row, { workspaceId, roleMax })
}

export function memberOf(row: SubjectRow, { workspaceId, roleMax }: Omit<Member, 'userId'>): Principal {
  return {
    ...userOf(row),
    credential: 'api_key',
    role: lowerRole(row.user_role, roleMax),
    keyId: null,
    workspaceId,
  }
}

/** The org that the first start creates. */
const HOME_ORG = 'default'

/** Finds a workspace that the configuration names: by its id, or by its short name in the org of the installation. */
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

type ActiveRow = {
  readonly user_id: string
  readonly external_id: string
  readonly role: 'writer' | 'admin'
  readonly org_roles: readonly string[]
  readonly origins: Origins
}

/** $1 workspace, $2 users, $3 slugs of org roles, $4 also every administrator. */
const listActiveSql = statement<ActiveRow>(
  'identity.list_active',
  `select u.id as user_id, u.external_id, u.role, ${originsIn('$1::uuid')} as origins,
          ${ORG_ROLES}
     from identity.workspaces w
     join identity.users u on u.org_id = w.org_id
    where w.id = $1::uuid and w.archived_at is null and u.deactivated_at is null and u.role in ('writer', 'admin')
      and (u.id = any ($2::uuid[]) or ($4::boolean and u.role = 'admin')
           or u.id in (select m.user_id
                         from identity.org_roles r
                         join identity.org_role_memberships m on m.org_id = r.org_id and m.role_id = r.id
                        where r.org_id = w.org_id and r.slug = any ($3::text[])))
      and ${mayEnter('u.id')}
    order by u.id`,
)

/** A person who may act in a workspace now. */
export type ActivePerson = {
  readonly userId: string
  readonly externalId: string
  readonly role: ActiveRow['role']
  readonly orgRoles: readonly string[]
  readonly origins: Origins
}

export type NamedPersons = {
  readonly workspaceId: string
  readonly userIds: Iterable<string>
  readonly orgRoles: Iterable<string>
  /** Include every administrator. */
  readonly admins?: boolean
}

/** Returns the named people and role holders who may act in the workspace; omits those who left, may not enter, or may only read. */
export async function listActive(
  sql: Sql,
  { workspaceId, userIds, orgRoles, admins = false }: NamedPersons,
): Promise<readonly ActivePerson[]> {
  const ids = [...new Set(userIds)].filter(isUuid)
  const rows = await sql.run(listActiveSql, [workspaceId, ids, [...new Set(orgRoles)], admins])
  return rows.map(({ user_id, external_id, role, org_roles, origins }) => ({
    userId: user_id,
    externalId: external_id,
    role,
    orgRoles: org_roles,
    origins,
  }))
}
