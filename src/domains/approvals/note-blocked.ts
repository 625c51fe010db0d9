/** In the turn of an approval that nobody can decide: on record once for each cause, with the administrators who are told of it. */
import { bySystem, listActive } from '#domains/identity'
import { findDatabaseTime } from './approval-repository.ts'
import type { Blocked } from './decide-reach.ts'
import { appendApprovalEventOnce } from './events.ts'
import { findBlocked } from './find-blocked.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalDeps, BlockedNotice } from './deps.ts'

/** Undefined: enough persons can decide. */
export async function noteBlocked(
  { db }: Pick<ApprovalDeps, 'db'>,
  approval: StoredApproval,
  traceId: string,
): Promise<BlockedNotice | undefined> {
  const blocked = (await findBlocked(db, [approval])).get(approval.approval_id)
  if (!blocked) return undefined
  const none = { userIds: [], orgRoles: [] }
  const active = await listActive(db, { workspaceId: approval.workspace_id, ...none, admins: true })
  const admins = active.map(({ userId }) => `user:${userId}`)
  await record(db, approval, blocked, admins, traceId)
  return { blocked, admins }
}

async function record(
  db: ApprovalDeps['db'],
  approval: StoredApproval,
  { code, reason, possible, required }: Blocked,
  admins: readonly string[],
  traceId: string,
): Promise<void> {
  const at = await findDatabaseTime(db)
  const payload = { code, reason, possible, required, admins }
  const fact = { type: 'approval_blocked', approval, by: bySystem(traceId), actorKind: 'system', at, payload } as const
  await db.transaction((tx) => appendApprovalEventOnce(tx, fact, code))
}
