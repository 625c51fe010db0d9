/** The only writer of orgs, people, roles and workspaces; cold paths, so plain SQL. Every look-up inside an org is by id and org. */
import type { Actor } from '#kernel/actor'
import { parseName, parseSlug } from '#contract'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Sql, Tx } from '#store'
import type { Rows } from '#store/rows'
import type { IdentityDeps } from './deps.ts'
import { appendOrgEvent } from './events.ts'

export type StoredOrg = Pick<Rows['identity.orgs'], 'id' | 'slug' | 'name' | 'created_at'>
export type StoredUser = Omit<Rows['identity.users'], 'deactivated_at'>
export type StoredOrgRole = Omit<Rows['identity.org_roles'], 'created_at'>

export type StoredWorkspace = Omit<Rows['identity.workspaces'], 'access_role_id' | 'archived_at'> & {
  /** Slug of the org role that may enter. */
  readonly access_role: string | null
}

const USER = 'id, org_id, external_id, email, role, created_at'

/** Nothing comes back when the slug is taken: the constraint decides, not a look before. */
export async function insertOrg(tx: Tx, org: StoredOrg): Promise<StoredOrg | undefined> {
  const [row] = await tx.query<StoredOrg>(
    `insert into identity.orgs (id, slug, name, created_at) values ($1, $2, $3, $4)
     on conflict (slug) do nothing returning id, slug, name, created_at`,
    [org.id, org.slug, org.name, org.created_at],
  )
  return row
}

export async function findOrgBySlug(sql: Sql, slug: string): Promise<StoredOrg | undefined> {
  const [row] = await sql.query<StoredOrg>('select id, slug, name, created_at from identity.orgs where slug = $1', [
    slug,
  ])
  return row
}

export async function findOrg(sql: Sql, orgId: string): Promise<StoredOrg | undefined> {
  const [row] = await sql.query<StoredOrg>('select id, slug, name, created_at from identity.orgs where id = $1', [
    orgId,
  ])
  return row
}

export async function insertUser(tx: Tx, user: StoredUser): Promise<StoredUser | undefined> {
  const [row] = await tx.query<StoredUser>(
    `insert into identity.users (${USER}) values ($1, $2, $3, $4, $5, $6)
     on conflict (external_id) do nothing returning ${USER}`,
    [user.id, user.org_id, user.external_id, user.email, user.role, user.created_at],
  )
  return row
}

export async function findUser(sql: Sql, orgId: string, userId: string): Promise<StoredUser | undefined> {
  const [row] = await sql.query<StoredUser>(`select ${USER} from identity.users where org_id = $1 and id = $2`, [
    orgId,
    userId,
  ])
  return row
}

export async function findUserByExternalId(
  sql: Sql,
  orgId: string,
  externalId: string,
): Promise<StoredUser | undefined> {
  const [row] = await sql.query<StoredUser>(
    `select ${USER} from identity.users where org_id = $1 and external_id = $2`,
    [orgId, externalId],
  )
  return row
}

export async function insertOrgRole(
  tx: Tx,
  role: StoredOrgRole & { created_at: Date },
): Promise<StoredOrgRole | undefined> {
  const [row] = await tx.query<StoredOrgRole>(
    `insert into identity.org_roles (id, org_id, slug, name, created_at) values ($1, $2, $3, $4, $5)
     on conflict (org_id, slug) do nothing returning id, org_id, slug, name`,
    [role.id, role.org_id, role.slug, role.name, role.created_at],
  )
  return row
}

export async function findOrgRole(sql: Sql, orgId: string, slug: string): Promise<StoredOrgRole | undefined> {
  const [row] = await sql.query<StoredOrgRole>(
    'select id, org_id, slug, name from identity.org_roles where org_id = $1 and slug = $2',
    [orgId, slug],
  )
  return row
}

/** True when the membership is new. The composite keys refuse a role and a user of different orgs. */
export async function insertMembership(
  tx: Tx,
  orgId: string,
  roleId: string,
  userId: string,
  at: Date,
): Promise<boolean> {
  const rows = await tx.query(
    `insert into identity.org_role_memberships (role_id, user_id, org_id, created_at) values ($1, $2, $3, $4)
     on conflict do nothing returning role_id`,
    [roleId, userId, orgId, at],
  )
  return rows.length === 1
}

export async function deleteMembership(tx: Tx, orgId: string, roleId: string, userId: string): Promise<boolean> {
  const rows = await tx.query(
    'delete from identity.org_role_memberships where org_id = $1 and role_id = $2 and user_id = $3 returning role_id',
    [orgId, roleId, userId],
  )
  return rows.length === 1
}

export type NewWorkspace = Omit<StoredWorkspace, 'access_role'> & { readonly access_role_id: string | null }

export async function insertWorkspace(tx: Tx, workspace: NewWorkspace): Promise<{ id: string } | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `insert into identity.workspaces (id, org_id, slug, name, owner_user_id, access_role_id, created_at)
     values ($1, $2, $3, $4, $5, $6, $7) on conflict (org_id, slug) do nothing returning id`,
    [
      workspace.id,
      workspace.org_id,
      workspace.slug,
      workspace.name,
      workspace.owner_user_id,
      workspace.access_role_id,
      workspace.created_at,
    ],
  )
  return row
}

export async function findWorkspaceBySlug(sql: Sql, orgId: string, slug: string): Promise<{ id: string } | undefined> {
  const [row] = await sql.query<{ id: string }>('select id from identity.workspaces where org_id = $1 and slug = $2', [
    orgId,
    slug,
  ])
  return row
}

/** Creates an organisation: the outermost wall between tenants. */
export type CreateOrg = { readonly slug: string; readonly name: string }

export async function createOrg(deps: IdentityDeps, by: Actor, input: CreateOrg): Promise<Decision<StoredOrg>> {
  const slug = parseSlug(input.slug)
  if (!slug.ok) return { ...slug, path: 'slug' }
  const name = parseName(input.name)
  if (!name.ok) return { ...name, path: 'name' }
  return deps.db.transaction(async (tx) => {
    const org = await insertOrg(tx, { id: deps.newId(), slug: slug.value, name: name.value, created_at: deps.now() })
    if (!org) return refuse('identity.org.slug_taken', `The short name ${slug.value} is in use.`, { path: 'slug' })
    await appendOrgEvent(tx, deps, by, {
      type: 'org_created',
      orgId: org.id,
      payload: { org_id: org.id, slug: org.slug },
    })
    return accept(org)
  })
}
