/** Tells people what waits for them: when it is asked, again at the times of its type, and to the next role after that. */
import { bySystem } from '#domains/identity'
import type { Sql, Tx } from '#store'
import { findDatabaseTime } from './approval-repository.ts'
import { appendApprovalEvent, appendApprovalEventOnce } from './events.ts'
import { escalateApproval } from './sql/escalate-approval.ts'
import { type CrowdedType, listCrowded } from './sql/list-crowded.ts'
import { type DueReminder, listDueRemindersSql } from './sql/list-due-reminders.ts'
import { listEscalations } from './sql/list-escalations.ts'
import type { StoredApproval } from './stored-approval.ts'
import type { ApprovalDeps, NoticeName, Notify, Sweep } from './deps.ts'

/** For the step that tells the approver about a new approval; true the first time, however often the step runs. */
export async function recordNotified(
  tx: Tx,
  approval: StoredApproval,
  { channel, notice = 'requested', traceId }: { channel: string; notice?: NoticeName; traceId: string },
): Promise<boolean> {
  const at = await findDatabaseTime(tx)
  const payload = { channel, notice, approver: approval.approver }
  const fact = { type: 'approval_notified', approval, by: bySystem(traceId), actorKind: 'system', at, payload } as const
  return appendApprovalEventOnce(tx, fact, `${channel}:${notice}`)
}

export function listDueReminders(
  sql: Sql,
  limit = 100,
  approvalId: string | null = null,
): Promise<readonly DueReminder[]> {
  return sql.run(listDueRemindersSql, [limit, approvalId])
}

export type Failure = { readonly approvalId: string; readonly error: unknown }

/** Every due reminder once, over all sweepers: whoever records it is the one who sends it. */
export async function remindApprovers(
  deps: Pick<ApprovalDeps, 'db'>,
  notify: Notify,
  { limit = 100, traceId, approvalId = null }: Sweep,
): Promise<{ readonly sent: number; readonly failed: readonly Failure[] }> {
  const due = await listDueReminders(deps.db, limit, approvalId)
  const { done, failed } = await eachAlone(deps, due, async (tx, { reminder, ...approval }) => {
    const at = await findDatabaseTime(tx)
    const payload = { reminder, approver: approval.approver }
    const by = bySystem(traceId)
    const fact = { type: 'approval_reminded', approval, by, actorKind: 'system', at, payload } as const
    if (!(await appendApprovalEventOnce(tx, fact, String(reminder)))) return undefined
    await notify(tx, { approval, why: 'reminder' })
    return approval
  })
  return { sent: done.length, failed }
}

/** Lets the role of the type's contract decide beside the ones who were asked. Gives the approvals that it opened up. */
export async function escalateApprovals(
  deps: Pick<ApprovalDeps, 'db' | 'newId'>,
  notify: Notify,
  { limit = 100, traceId, approvalId = null }: Sweep,
): Promise<{ readonly escalated: readonly StoredApproval[]; readonly failed: readonly Failure[] }> {
  const due = await deps.db.run(listEscalations, [limit, approvalId])
  const { done, failed } = await eachAlone(deps, due, async (tx, { approval_id }) => {
    const [row] = await tx.run(escalateApproval, [approval_id])
    if (!row) return undefined
    const { role, ...approval } = row
    const at = await findDatabaseTime(tx)
    const fact = { type: 'approval_escalated', approval, by: bySystem(traceId), actorKind: 'system', at } as const
    await appendApprovalEvent(tx, deps.newId, { ...fact, payload: { role } })
    await notify(tx, { approval, why: 'escalation' })
    return approval
  })
  return { escalated: done, failed }
}

/** A transaction each: one that cannot be told does not keep the others waiting, and is tried again by the next sweep. */
async function eachAlone<Row extends { readonly approval_id: string }, Done>(
  { db }: Pick<ApprovalDeps, 'db'>,
  rows: readonly Row[],
  work: (tx: Tx, row: Row) => Promise<Done | undefined>,
): Promise<{ readonly done: readonly Done[]; readonly failed: readonly Failure[] }> {
  const done: Done[] = []
  const failed: Failure[] = []
  for (const row of rows) {
    try {
      const result = await db.transaction((tx) => work(tx, row))
      if (result !== undefined) done.push(result)
    } catch (error) {
      failed.push({ approvalId: row.approval_id, error })
    }
  }
  return { done, failed }
}

/** A hundred open questions of one kind are a hundred clicks without reading: somebody should hear about it. */
const CROWDED_AT = 100

export function listCrowdedTypes(sql: Sql, crowdedAt = CROWDED_AT): Promise<readonly CrowdedType[]> {
  return sql.run(listCrowded, [crowdedAt])
}
