/** The rows of orgs, users, org roles and workspaces. These are cold paths, so plain SQL. A lookup inside an org is by id and org. */
import type { Actor } from '#kernel/actor'
import { parseName, parseSlug } from '#contract'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Sql, Tx } from '#store'
import type { Rows } from '#store/rows'
import type { IdentityDeps } from './deps.ts'
import { appendOrgEvent } from './events.ts'

export type StoredOrg = Pick<Rows['identity.orgs'], 'id' | 'slug' | 'name' | 'created_at'>
export type StoredUser = Omit<Rows['identity.users'], 'deactivated_at' | 'issuers'>
export type StoredOrgRole = Omit<Rows['identity.org_roles'], 'created_at'>

export type StoredWorkspace = Omit<Rows['identity.workspaces'], 'access_role_id' | 'archived_at'> & {
  /** Slug of the org role that may enter. */
  readonly access_role: string | null
}

const ORG = 'id, slug, name, created_at'
const USER = 'id, org_id, external_id, email, role, created_at'
export const ORG_ROLE = 'id, org_id, slug, name'

async function findOne<Row extends object>(
  sql: Sql,
  text: string,
  values: readonly unknown[],
): Promise<Row | undefined> {
  const [row] = await sql.query<Row>(text, values)
  return row
}

/** Inserts exactly the fields of `row`. Returns undefined when the unique key is taken: the constraint decides, not an earlier read. */
export function insertRow<Row extends object>(
  tx: Tx,
  into: { readonly table: string; readonly unique: string; readonly returning: string },
  row: object,
): Promise<Row | undefined> {
  const columns = Object.keys(row)
  const places = columns.map((_, at) => `$${at + 1}`)
  return findOne<Row>(
    tx,
    `insert into identity.${into.table} (${columns.join(', ')}) values (${places.join(', ')})
     on conflict (${into.unique}) do nothing returning ${into.returning}`,
    Object.values(row),
  )
}

export function insertOrg(tx: Tx, org: StoredOrg): Promise<StoredOrg | undefined> {
  return insertRow(tx, { table: 'orgs', unique: 'slug', returning: ORG }, org)
}

export function findOrgBySlug(sql: Sql, slug: string): Promise<StoredOrg | undefined> {
  return findOne(sql, `select ${ORG} from identity.orgs where slug = $1`, [slug])
}

export function findOrg(sql: Sql, orgId: string): Promise<StoredOrg | undefined> {
  return findOne(sql, `select ${ORG} from identity.orgs where id = $1`, [orgId])
}

export function insertUser(tx: Tx, user: StoredUser): Promise<StoredUser | undefined> {
  return insertRow(tx, { table: 'users', unique: 'external_id', returning: USER }, user)
}

export function findUser(sql: Sql, orgId: string, userId: string): Promise<StoredUser | undefined> {
  return findOne(sql, `select ${USER} from identity.users where org_id = $1 and id = $2`, [orgId, userId])
}

export function findUserByExternalId(sql: Sql, orgId: string, externalId: string): Promise<StoredUser | undefined> {
  return findOne(sql, `select ${USER} from identity.users where org_id = $1 and external_id = $2`, [orgId, externalId])
}

export function insertOrgRole(tx: Tx, role: Rows['identity.org_roles']): Promise<StoredOrgRole | undefined> {
  return insertRow(tx, { table: 'org_roles', unique: 'org_id, slug', returning: ORG_ROLE }, role)
}

export function findOrgRole(sql: Sql, orgId: string, slug: string): Promise<StoredOrgRole | undefined> {
  return findOne(sql, `select ${ORG_ROLE} from identity.org_roles where org_id = $1 and slug = $2`, [orgId, slug])
}

/** True when the membership is new. The composite keys refuse a role and a user of different orgs. */
export async function insertMembership(
  tx: Tx,
  orgId: string,
  roleId: string,
  userId: string,
  grant: { readonly by: readonly string[]; readonly at: Date },
): Promise<boolean> {
  const rows = await tx.query(
    `insert into identity.org_role_memberships (role_id, user_id, org_id, created_at, granted_by) values ($1, $2, $3, $4, $5)
     on conflict do nothing returning role_id`,
    [roleId, userId, orgId, grant.at, grant.by],
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

export type NewWorkspace = Omit<Rows['identity.workspaces'], 'archived_at'>

export function insertWorkspace(tx: Tx, workspace: NewWorkspace): Promise<{ readonly id: string } | undefined> {
  return insertRow(tx, { table: 'workspaces', unique: 'org_id, slug', returning: 'id' }, workspace)
}

export function findWorkspaceBySlug(
  sql: Sql,
  orgId: string,
  slug: string,
): Promise<{ readonly id: string } | undefined> {
  return findOne(sql, 'select id from identity.workspaces where org_id = $1 and slug = $2', [orgId, slug])
}

/** An organisation is the outermost boundary between tenants. */
export type CreateOrg = { readonly slug: string; readonly name: string }

export async function createOrg(deps: IdentityDeps, actor: Actor, input: CreateOrg): Promise<Decision<StoredOrg>> {
  const slug = parseSlug(input.slug)
  if (!slug.ok) return { ...slug, path: 'slug' }
  const name = parseName(input.name)
  if (!name.ok) return { ...name, path: 'name' }
  return deps.db.transaction(async (tx) => {
    const org = await insertOrg(tx, { id: deps.newId(), slug: slug.value, name: name.value, created_at: deps.now() })
    if (!org) return refuse('identity.org.slug_taken', `The short name ${slug.value} is in use.`, { path: 'slug' })
    await appendOrgEvent(tx, deps, actor, {
      type: 'org_created',
      orgId: org.id,
      payload: { org_id: org.id, slug: org.slug },
    })
    return accept(org)
  })
}
