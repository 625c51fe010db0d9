/** Which open approvals nobody can decide today: asked of the rows of persons and roles, never stored. */
import { listActive } from '#domains/identity'
import type { Sql } from '#store'
import { personIdsOf } from './approver.ts'
import { type Blocked, decideReach, namedPersons, namedRoles } from './decide-reach.ts'
import type { StoredApproval } from './stored-approval.ts'

/** By approval id. One look-up for all of them: they are of one workspace. */
export type BlockedApprovals = ReadonlyMap<string, Blocked>

export async function findBlocked(sql: Sql, approvals: readonly StoredApproval[]): Promise<BlockedApprovals> {
  const open = approvals.filter(({ status }) => status === 'pending')
  const [first] = open
  if (!first) return new Map()
  const persons = await listActive(sql, {
    workspaceId: first.workspace_id,
    userIds: personIdsOf(open.flatMap(namedPersons)),
    orgRoles: open.flatMap(namedRoles),
  })
  return new Map(
    open.flatMap((approval) => {
      const blocked = decideReach(approval, persons)
      return blocked ? [[approval.approval_id, blocked]] : []
    }),
  )
}
