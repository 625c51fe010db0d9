/** The inbox: what waits for me, what waits at all, and what was decided, one page at a time, behind both walls. */
import { type Db, scoped } from '#store'
import type { ApprovalState } from '#kernel/machines/approval'
import { type Decider, personOf, refsOf, rolesOf } from './approver.ts'
import { findBlocked } from './find-blocked.ts'
import { listHistory } from './sql/list-history.ts'
import { listInbox } from './sql/list-inbox.ts'
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

/** Open approvals are looked through by deadline; a page may be short, and then says where the next one starts. */
const LOOKED_AT_MAX = 1_000

async function readOwnAndBlocked(db: Db, decider: Decider, query: ListApprovals): Promise<ApprovalPage> {
  const items: StoredApproval[] = []
  let after = query.after
  for (let looked = 0; looked < LOOKED_AT_MAX; ) {
    const part = { ...query, after, limit: query.limit - items.length }
    const page = await readInbox(db, decider, { ...part, mine: false })
    const blocked = await findBlocked(db, page.items)
    // Asked from the same place on, so that one rule says what is somebody's.
    const own = new Set((await readInbox(db, decider, part)).items.map(({ approval_id: id }) => id))
    looked += page.items.length
    items.push(...page.items.filter(({ approval_id: id }) => own.has(id) || blocked.has(id)))
    after = page.next
    if (after === undefined || items.length >= query.limit) break
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
