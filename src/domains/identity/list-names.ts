/** What people are called, for answers that name them by id: one look-up for a whole answer, and only in the org of who asks. */
import { isUuid } from '#kernel/uuid'
import type { Sql } from '#store'

/** By user id; somebody who is not of this org has no name here. */
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
