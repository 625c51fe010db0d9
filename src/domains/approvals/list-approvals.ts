/** The inbox: what waits for me, what waits at all, and what was decided, one page at a time, behind both walls. */
import { type Db, scoped } from '#store'
import type { ApprovalState } from '#kernel/machines/approval'
import { type Decider, personOf, refsOf, rolesOf } from './approver.ts'
import { listHistory } from './sql/list-history.ts'
import { listInbox } from './sql/list-inbox.ts'
import type { StoredApproval } from './stored-approval.ts'

export type ListApprovals = {
  readonly workspaceId: string
  /** Only what this person can decide now; open ones only. */
  readonly mine?: boolean
  /** `pending` goes by deadline, everything else newest first. */
  readonly status?: ApprovalState | 'all'
  readonly approvalType?: string | undefined
  readonly commandId?: string | undefined
  /** The position of the last row of the page before. */
  readonly after?: readonly string[] | undefined
  readonly limit: number
}

export type ApprovalPage = {
  readonly items: readonly StoredApproval[]
  /** Where the next page starts; undefined on the last. */
  readonly next: readonly string[] | undefined
}

export function listApprovals(db: Db, decider: Decider, query: ListApprovals): Promise<ApprovalPage> {
  const { status = 'pending' } = query
  return status === 'pending' || query.mine ? readInbox(db, decider, query) : readHistory(db, query, status)
}

async function readInbox(db: Db, decider: Decider, query: ListApprovals): Promise<ApprovalPage> {
  const [deadline = null, approvalId = null] = query.after ?? []
  const rows = await scoped(db, query.workspaceId).read((tx) =>
    tx.run(listInbox, [
      query.workspaceId,
      personOf(decider),
      refsOf(decider),
      rolesOf(decider),
      query.mine ?? false,
      query.approvalType ?? null,
      query.commandId ?? null,
      deadline,
      approvalId,
      // One row more than asked for says whether there is a next page.
      query.limit + 1,
    ]),
  )
  const page = rows.slice(0, query.limit)
  const last = rows.length > query.limit ? page.at(-1) : undefined
  return { items: page, next: last && [last.deadline, last.approval_id] }
}

async function readHistory(db: Db, query: ListApprovals, status: ApprovalState | 'all'): Promise<ApprovalPage> {
  const values = [
    query.workspaceId,
    status === 'all' ? null : status,
    query.approvalType ?? null,
    query.commandId ?? null,
    query.after?.[0] ?? null,
    query.limit + 1,
  ]
  const rows = await scoped(db, query.workspaceId).read((tx) => tx.run(listHistory, values))
  const items = rows.slice(0, query.limit)
  const last = rows.length > query.limit ? items.at(-1) : undefined
  return { items, next: last && [last.approval_id] }
}
