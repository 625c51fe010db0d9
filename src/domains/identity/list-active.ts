/** Who of the persons and roles that are named may act in a workspace today. */
import { isUuid } from '#kernel/uuid'
import type { Sql } from '#store'
import { type ActiveRow, listActiveSql } from './sql/list-active.ts'

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

/** Somebody who left, may not enter, or only reads is not among them. */
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
