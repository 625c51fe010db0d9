/** For work that happens later in somebody's name: who that person is today, and which workspace an installation calls its own. */
import { decodeId } from '#kernel/ids'
import type { Sql } from '#store'
import { findOrgBySlug, findWorkspaceBySlug } from './identity-repository.ts'
import { lowerRole, type PlatformRole } from './platform-role.ts'
import type { Principal } from '#kernel/actor'
import { findMemberRow } from './sql/find-member.ts'

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
