/** The inbox: what waits for me, what waits at all, and what was decided, one page at a time, behind both walls. */
import { type Db, scoped } from '#store'
import type { ApprovalState } from '#kernel/machines/approval'
import { type Decider, personOf, refsOf, rolesOf } from './approver.ts'
import { findBlocked } from './find-blocked.ts'
import { listHistory } from './sql/list-history.ts'
import { type InboxRow, listInbox } from './sql/list-inbox.ts'
import type { StoredApproval } from './stored-approval.ts'

export type ListApprovals = {
  readonly workspaceId: string
  /** Only what this person can decide now; open ones only. */
  readonly mine?: boolean
  /** And what nobody can decide as things are: for those who can change that. */
  readonly alsoBlocked?: boolean
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
  if (query.mine && query.alsoBlocked) return readOwnAndBlocked(db, decider, query)
  return status === 'pending' || query.mine ? readInbox(db, decider, query) : readHistory(db, query, status)
}

async function readInbox(db: Db, decider: Decider, query: ListApprovals): Promise<ApprovalPage> {
  const { rows, isLast } = await readRows(db, decider, query)
  const last = isLast ? undefined : rows.at(-1)
  return { items: rows, next: last && positionOf(last) }
}

function positionOf({ deadline, approval_id }: InboxRow): readonly string[] {
  return [deadline, approval_id]
}

type Rows = { readonly rows: readonly InboxRow[]; readonly isLast: boolean }

async function readRows(db: Db, decider: Decider, query: ListApprovals): Promise<Rows> {
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
  return { rows: rows.slice(0, query.limit), isLast: rows.length <= query.limit }
}

/** Open approvals are looked through by deadline, so many at a time however few are wanted; a page may be short, and then says where the next one starts. */
const LOOKED_AT_ONCE = 200
const LOOKS_MAX = 5

async function readOwnAndBlocked(db: Db, decider: Decider, query: ListApprovals): Promise<ApprovalPage> {
  const items: StoredApproval[] = []
  let after = query.after
  for (let looks = 0; looks < LOOKS_MAX; looks++) {
    const part = { ...query, after, limit: LOOKED_AT_ONCE }
    const { rows, isLast } = await readRows(db, decider, { ...part, mine: false })
    const blocked = await findBlocked(db, rows)
    // Asked from the same place on, so that one rule says what is somebody's.
    const own = new Set((await readRows(db, decider, part)).rows.map(({ approval_id: id }) => id))
    const found = rows.filter(({ approval_id: id }) => own.has(id) || blocked.has(id))
    const fitting = found.slice(0, query.limit - items.length)
    items.push(...fitting)
    const last = fitting.length < found.length ? fitting.at(-1) : rows.at(-1)
    after = last && positionOf(last)
    if (isLast && fitting.length === found.length) return { items, next: undefined }
    if (items.length >= query.limit) break
  }
  return { items, next: after }
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
