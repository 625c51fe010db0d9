/**
 * The sweeps over open approvals: reminders, escalation, expiry. The turns of each approval and a schedule run them. Any number of
 * concurrent sweepers do each thing once.
 */
import { type Actor, bySystem } from '#kernel/actor'
import { AHEAD_MAX_MS, type RepairedTime } from '#kernel/clock'
import type { Decision } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import { approvalTable, findDatabaseTime } from './approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import { lockSubject, applyDecision } from './decide-approval.ts'
import { isStale, readSeen } from './decide-at-once.ts'
import type { ApprovalDeps, Notify, Sweep } from './deps.ts'
import { askAgain } from './request-approval.ts'

type DueReminder = StoredApproval & {
  /** The number of the reminder, from 1. */
  readonly reminder: number
}

/** $1 limit, $2 only this approval, or null. Of several due reminders of one approval only the last is returned. */
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

/** A condition on the row `t`; the statement that writes checks it again. */
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

/** $1 approval. Returns no row when another sweeper was first, or when the approval was answered meanwhile. */
const escalateApproval = statement<StoredApproval & { readonly role: string }>(
  'approvals.escalate',
  `update concord.approvals t
      set approver_roles = t.approver_roles || (t.request_payload->'contract'->'escalation'->>'role')
    where t.approval_id = $1::uuid and ${isOverdue}
   returning t.*, t.request_payload->'contract'->'escalation'->>'role' as role`,
)

export function listDueReminders(
  sql: Sql,
  limit = 100,
  approvalId: string | null = null,
): Promise<readonly DueReminder[]> {
  return sql.run(listDueRemindersSql, [limit, approvalId])
}

type Failure = { readonly approvalId: string; readonly error: unknown }

/** Each due reminder is sent once over all sweepers: the one that records it sends it. */
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
    if (!(await approvalTable.append(tx, approval, bySystem(traceId), fact))) return undefined
    await notify(tx, { approval, why: 'reminder' })
    return approval
  })
  return { sent: done.length, failed }
}

/** Adds the role of the type's contract to those who may decide, and returns the changed approvals. */
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
    await approvalTable.append(tx, approval, bySystem(traceId), fact)
    await notify(tx, { approval, why: 'escalation' })
    return approval
  })
  return { escalated: done, failed }
}

/** One transaction for each row: a failing one does not block the others, and the next sweep tries it again. */
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
  /** Unchanged, because the command could not be moved; the next sweep tries again. */
  readonly failed: readonly Failure[]
  /** True when the batch was full, so that there may be more. */
  readonly more: boolean
}

export async function expireApprovals(
  deps: ApprovalDeps,
  { limit = 100, traceId, approvalId = null }: Sweep,
): Promise<Swept> {
  const overdue = await deps.db.run(listOverdue, [limit, approvalId])
  const actor = bySystem(traceId)
  const { done, failed } = await eachAlone(deps, overdue, (tx, row) => expireOne(tx, deps, actor, row))
  return { expired: done.length, failed, more: overdue.length === limit }
}

/** Reminders, escalation and expiry count from `created_at`. Uses approvals_inbox_ix. */
const repairOpen = statement<{ readonly id: string; readonly ahead_ms: number }>(
  'approvals.repair_times',
  `with ahead as materialized (
     select t.approval_id, t.created_at - statement_timestamp() as lead
       from concord.approvals t
      where t.status = 'pending' and t.created_at > statement_timestamp() + make_interval(secs => ${AHEAD_MAX_MS / 1_000})
        for no key update
   )
   update concord.approvals t
      set created_at = t.created_at - a.lead, expires_at = t.expires_at - a.lead,
          review_packet = case when t.expires_at is null then t.review_packet else t.review_packet || jsonb_build_object('expiration',
            to_char((t.expires_at - a.lead) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) end
     from ahead a
    where t.approval_id = a.approval_id
   returning t.approval_id as id, (extract(epoch from a.lead) * 1000)::double precision as ahead_ms`,
)

/** An approval that was requested while the clock was ahead keeps the length of its deadline, counted from now. */
export async function repairApprovalTimes({ db }: Pick<ApprovalDeps, 'db'>): Promise<readonly RepairedTime[]> {
  const rows = await db.run(repairOpen)
  return rows.map(({ id, ahead_ms }) => ({ what: 'approval', id, aheadMs: ahead_ms }))
}

/** Returns undefined when the approval was answered meanwhile. */
async function expireOne(
  tx: Tx,
  deps: ApprovalDeps,
  actor: Actor<'system'>,
  { approval_id, workspace_id }: OverdueRow,
): Promise<StoredApproval | undefined> {
  const known = await approvalTable.find(tx, workspace_id, approval_id)
  if (known?.status !== 'pending') return undefined
  const locked = await lockSubject(tx, deps, known)
  const approval = locked.approvals.find((each) => each.approval_id === approval_id)
  if (approval?.status !== 'pending') return undefined
  const moved = await approvalTable.transition(tx, approval, 'expired', actor, {
    at: locked.at,
    newId: deps.newId,
    guards: ['overdue'],
    payload: { reason: 'no_answer_in_time', expired_at: approval.expires_at?.toISOString() ?? null },
  })
  if (!moved.ok) return undefined
  await applyDecision(tx, deps, actor, moved.row, locked)
  return moved.row
}

/** $1 after this approval, $2 limit. */
const listOpenGates = statement<OverdueRow>(
  'approvals.list_open_gates',
  `select approval_id, workspace_id from concord.approvals
    where status = 'pending' and domain_effect_id is null and approval_id > $1::uuid order by approval_id limit $2`,
)

const PAGE = 200
const NO_ID = '00000000-0000-0000-0000-000000000000'

/**
 * Asks again about every command whose plan has changed since people were asked: for the start of a process, which may have another catalog.
 * Returns the number of commands, and those that could not be asked about again: they stay as they are, and the answer to their approval is refused.
 */
export async function askChanged(
  deps: ApprovalDeps,
  { traceId }: Pick<Sweep, 'traceId'>,
): Promise<{ readonly asked: number; readonly failed: readonly Failure[] }> {
  const { atOnce } = deps.owner
  const failures: Failure[] = []
  let asked = 0
  for (let after: string | undefined = NO_ID; atOnce && after !== undefined; ) {
    const open: readonly OverdueRow[] = await deps.db.run(listOpenGates, [after, PAGE])
    const stale: OverdueRow[] = []
    for (const row of open) {
      const seen = await readSeen(deps, atOnce, null, { workspaceId: row.workspace_id, approvalId: row.approval_id })
      if (seen && isStale(seen.approval, seen.command)) stale.push(row)
    }
    const { done, failed } = await eachAlone(deps, stale, async (tx, row) => {
      const again = await askOne(tx, deps, row, traceId)
      return again && { again, approvalId: row.approval_id }
    })
    failures.push(...failed)
    for (const { again, approvalId } of done) {
      if (again.ok) asked += 1
      else failures.push({ approvalId, error: again.reason })
    }
    after = open.length < PAGE ? undefined : open.at(-1)?.approval_id
  }
  return { asked, failed: failures }
}

/** Returns undefined when somebody has answered or asked again meanwhile. */
async function askOne(
  tx: Tx,
  deps: ApprovalDeps,
  { approval_id, workspace_id }: OverdueRow,
  traceId: string,
): Promise<Decision<StoredApproval> | undefined> {
  const known = await approvalTable.find(tx, workspace_id, approval_id)
  if (known?.status !== 'pending') return undefined
  const { approvals, command } = await lockSubject(tx, deps, known)
  const approval = approvals.find((each) => each.approval_id === approval_id)
  if (approval?.status !== 'pending' || !isStale(approval, command)) return undefined
  return askAgain(tx, deps, approval, traceId)
}
