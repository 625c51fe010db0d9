/** The sweeps over open approvals: reminders, the next role, expiry. Driven by each approval's own turns and by a schedule; any number of sweepers at once do each thing once. */
import { bySystem } from '#kernel/actor'
import { type Sql, statement, type Tx } from '#store'
import { actorAs, approvalTable, findDatabaseTime, saveExpired } from './approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import { lockSubject, applyDecision } from './decide-approval.ts'
import type { ApprovalDeps, NoticeName, Notify, Sweep } from './deps.ts'

type DueReminder = StoredApproval & {
  /** The how-manieth reminder, from 1. */
  readonly reminder: number
}

/** $1 limit, $2 only this approval, or null. Of several that are due for one approval only the last is worth sending. */
const listDueRemindersSql = statement<DueReminder>(
  'approvals.list_due_reminders',
  `select t.*, due.reminder
     from concord.approvals t
    cross join lateral (
          select max(r.n)::int as reminder
            from jsonb_array_elements_text(t.request_payload->'contract'->'reminders_after_minutes') with ordinality as r(minutes, n)
           where t.created_at + make_interval(mins => r.minutes::int) <= statement_timestamp()
          ) as due
    where t.status = 'pending' and (t.expires_at is null or t.expires_at > statement_timestamp())
      and due.reminder is not null and ($2::uuid is null or t.approval_id = $2)
      and not exists (select from concord.domain_events e
                       where e.command_id = t.command_id and e.event_type = 'approval_reminded'
                         and e.payload->>'approval_id' = t.approval_id::text and (e.payload->>'reminder')::int >= due.reminder)
    order by t.created_at, t.approval_id
    limit $1`,
)

/** Over the row `t`; asked once more by the statement that writes. */
const isOverdue = `t.status = 'pending' and (t.expires_at is null or t.expires_at > statement_timestamp())
      and t.created_at + make_interval(mins => (t.request_payload->'contract'->'escalation'->>'after_minutes')::int) <= statement_timestamp()
      and not t.request_payload->'contract'->'escalation'->>'role' = any (t.approver_roles)`

/** $1 limit, $2 only this approval, or null. */
const listEscalations = statement<{ readonly approval_id: string }>(
  'approvals.list_escalations',
  `select t.approval_id
     from concord.approvals t
    where ${isOverdue} and ($2::uuid is null or t.approval_id = $2)
    order by t.created_at, t.approval_id
    limit $1`,
)

/** $1 approval. No row when another sweeper was first, or it was answered meanwhile. */
const escalateApproval = statement<StoredApproval & { readonly role: string }>(
  'approvals.escalate',
  `update concord.approvals t
      set approver_roles = t.approver_roles || (t.request_payload->'contract'->'escalation'->>'role')
    where t.approval_id = $1::uuid and ${isOverdue}
   returning t.*, t.request_payload->'contract'->'escalation'->>'role' as role`,
)

type CrowdedType = { readonly workspace_id: string; readonly approval_type: string; readonly waiting: number }

/** $1 how many are too many. */
const listCrowded = statement<CrowdedType>(
  'approvals.list_crowded',
  `select workspace_id, approval_type, count(*)::int as waiting
     from concord.approvals
    where status = 'pending'
    group by workspace_id, approval_type
   having count(*) >= $1
    order by waiting desc, workspace_id, approval_type`,
)

/** For the step that tells the approver about a new approval; true the first time, however often the step runs. */
export async function recordNotified(
  tx: Tx,
  approval: StoredApproval,
  { channel, notice = 'requested', traceId }: { channel: string; notice?: NoticeName; traceId: string },
): Promise<boolean> {
  const at = await findDatabaseTime(tx)
  const payload = { channel, notice, approver: approval.approver }
  const fact = { type: 'approval_notified', at, payload, round: `${channel}:${notice}` } as const
  return approvalTable.append(tx, approval, actorAs(bySystem(traceId), 'system'), fact)
}

export function listDueReminders(
  sql: Sql,
  limit = 100,
  approvalId: string | null = null,
): Promise<readonly DueReminder[]> {
  return sql.run(listDueRemindersSql, [limit, approvalId])
}

type Failure = { readonly approvalId: string; readonly error: unknown }

/** Each due reminder once, over all sweepers: the sweeper that records it sends it. */
export async function remindApprovers(
  deps: Pick<ApprovalDeps, 'db'>,
  notify: Notify,
  { limit = 100, traceId, approvalId = null }: Sweep,
): Promise<{ readonly sent: number; readonly failed: readonly Failure[] }> {
  const due = await listDueReminders(deps.db, limit, approvalId)
  const { done, failed } = await eachAlone(deps, due, async (tx, { reminder, ...approval }) => {
    const at = await findDatabaseTime(tx)
    const payload = { reminder, approver: approval.approver }
    const fact = { type: 'approval_reminded', at, payload, round: String(reminder) } as const
    if (!(await approvalTable.append(tx, approval, actorAs(bySystem(traceId), 'system'), fact))) return undefined
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
    const fact = { type: 'approval_escalated', at, newId: deps.newId, payload: { role } } as const
    await approvalTable.append(tx, approval, actorAs(bySystem(traceId), 'system'), fact)
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

type OverdueRow = { readonly approval_id: string; readonly workspace_id: string }

/** $1 limit, $2 only this approval, or null. */
const listOverdue = statement<OverdueRow>(
  'approvals.list_overdue',
  `select approval_id, workspace_id
     from concord.approvals
    where status = 'pending' and expires_at <= statement_timestamp() and ($2::uuid is null or approval_id = $2)
    order by expires_at, approval_id
    limit $1`,
)

type Swept = {
  readonly expired: number
  /** Left as they were, because their command could not be moved along; the next sweep tries again. */
  readonly failed: readonly { readonly approvalId: string; readonly error: unknown }[]
  /** The batch was full: there may be more. */
  readonly more: boolean
}

export async function expireApprovals(
  deps: ApprovalDeps,
  { limit = 100, traceId, approvalId = null }: Sweep,
): Promise<Swept> {
  const overdue = await deps.db.run(listOverdue, [limit, approvalId])
  const failed: { approvalId: string; error: unknown }[] = []
  let expired = 0
  for (const row of overdue) {
    // A transaction each: one command that cannot be moved does not keep the others waiting.
    try {
      if (await expireOne(deps, row, traceId)) expired += 1
    } catch (error) {
      failed.push({ approvalId: row.approval_id, error })
    }
  }
  return { expired, failed, more: overdue.length === limit }
}

function expireOne(deps: ApprovalDeps, { approval_id, workspace_id }: OverdueRow, traceId: string): Promise<boolean> {
  const by = bySystem(traceId)
  return deps.db.transaction(async (tx) => {
    const known = await approvalTable.find(tx, workspace_id, approval_id)
    if (known?.status !== 'pending') return false
    const locked = await lockSubject(tx, deps, known)
    const approval = locked.approvals.find((each) => each.approval_id === approval_id)
    if (approval?.status !== 'pending') return false
    const moved = await saveExpired(tx, actorAs(by, 'system'), approval, {
      at: locked.at,
      newId: deps.newId,
      why: 'no_answer_in_time',
    })
    if (!moved.ok) return false
    await applyDecision(tx, deps, moved.row, locked, by)
    return true
  })
}
