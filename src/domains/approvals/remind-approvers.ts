/** Tells people what waits for them: when it is asked, again at the times of its type, and to the next role after that. */
import { bySystem } from '#domains/identity'
import type { Sql, Tx } from '#store'
import { findDatabaseTime } from './approval-repository.ts'
import { appendApprovalEvent, appendApprovalEventOnce } from './events.ts'
import { escalateOverdue } from './sql/escalate-approvals.ts'
import { type CrowdedType, listCrowded } from './sql/list-crowded.ts'
import { type DueReminder, listDueRemindersSql } from './sql/list-due-reminders.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalWorld, Notify } from './world.ts'

export type Sweep = { readonly limit?: number; readonly traceId: string }

/** For the step that tells the approver about a new approval; true the first time, however often the step runs. */
export async function recordNotified(
  tx: Tx,
  approval: StoredApproval,
  { channel, traceId }: { readonly channel: string; readonly traceId: string },
): Promise<boolean> {
  const at = await findDatabaseTime(tx)
  const payload = { channel, approver: approval.approver }
  const fact = { type: 'approval_notified', approval, by: bySystem(traceId), actorKind: 'system', at, payload } as const
  return appendApprovalEventOnce(tx, fact, channel)
}

export function listDueReminders(sql: Sql, limit = 100): Promise<readonly DueReminder[]> {
  return sql.run(listDueRemindersSql, [limit])
}

/** Every due reminder once, over all sweepers: whoever records it is the one who sends it. Gives how many. */
export async function remindApprovers(
  world: Pick<ApprovalWorld, 'db'>,
  notify: Notify,
  { limit = 100, traceId }: Sweep,
): Promise<number> {
  let sent = 0
  for (const { reminder, ...approval } of await listDueReminders(world.db, limit)) {
    const isNew = await world.db.transaction(async (tx) => {
      const at = await findDatabaseTime(tx)
      const payload = { reminder, approver: approval.approver }
      const fact = {
        type: 'approval_reminded',
        approval,
        by: bySystem(traceId),
        actorKind: 'system',
        at,
        payload,
      } as const
      if (!(await appendApprovalEventOnce(tx, fact, String(reminder)))) return false
      await notify(tx, { approval, why: 'reminder' })
      return true
    })
    if (isNew) sent += 1
  }
  return sent
}

/** Lets the role of the type's contract decide beside the ones who were asked. Gives the approvals that it opened up. */
export function escalateApprovals(
  world: Pick<ApprovalWorld, 'db' | 'newId'>,
  notify: Notify,
  { limit = 100, traceId }: Sweep,
): Promise<readonly StoredApproval[]> {
  return world.db.transaction(async (tx) => {
    const at = await findDatabaseTime(tx)
    const rows = await tx.run(escalateOverdue, [limit])
    const escalated: StoredApproval[] = []
    for (const { role, ...approval } of rows) {
      const fact = { type: 'approval_escalated', approval, by: bySystem(traceId), actorKind: 'system', at } as const
      await appendApprovalEvent(tx, world.newId, { ...fact, payload: { role } })
      await notify(tx, { approval, why: 'escalation' })
      escalated.push(approval)
    }
    return escalated
  })
}

/** A hundred open questions of one kind are a hundred clicks without reading: somebody should hear about it. */
export const CROWDED_AT = 100

export function listCrowdedTypes(sql: Sql, crowdedAt = CROWDED_AT): Promise<readonly CrowdedType[]> {
  return sql.run(listCrowded, [crowdedAt])
}
