/** Reads approvals: one by its id, the inbox, the history, the edits of approvers, and whether a command is approved. */
import type { JsonObject } from '#kernel/json-value'
import type { ApprovalState } from '#kernel/machines/approval'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { cutPage, type Db, type Paged, pageText, scoped, type Sql, statement } from '#store'
import { approvalTable, countedElsewhere } from './approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import { type Person, refsOf, rolesOf, showActor } from './approver.ts'
import { findStanding } from './check-deciders.ts'
import { findApprover } from './decide-vote.ts'

/** The deadline as text, to the microsecond: a JavaScript date would truncate it, and a page would repeat rows. */
type InboxRow = StoredApproval &
  Paged & { readonly deadline: string; readonly is_asked: boolean; readonly counted: readonly string[] }

/**
 * $1 workspace, $2 the references that name the person and those they stand in for, $3 the org roles of all of them, $4 only what these are asked, $5 type or null, $6
 * command or null, $7 deadline and $8 approval to start after or null, $9 limit. Whether the person may decide is not for SQL.
 */
const listInbox = statement<InboxRow>(
  'approvals.list_inbox',
  pageText(`select t.*, coalesce(t.expires_at, 'infinity')::text as deadline, own.is_asked, ${countedElsewhere} as counted
     from concord.approvals t
    cross join lateral (select (
            (t.approver = any ($2::text[]) or t.approver_roles && $3::text[] or t.request_payload->'approvers' ?| $2::text[])
            and (t.expires_at is null or t.expires_at > statement_timestamp())) as is_asked) own
    where t.workspace_id = $1::uuid and t.status = 'pending' and (own.is_asked or not $4::boolean)
      and ($5::text is null or t.approval_type = $5)
      and ($6::uuid is null or t.command_id = $6)
      and ($7::text is null or (coalesce(t.expires_at, 'infinity'), t.approval_id) > ($7::timestamptz, $8::uuid))
    order by coalesce(t.expires_at, 'infinity'), t.approval_id
    limit $9`),
)

/**
 * $1 workspace, $2 status or null for all, $3 type or null, $4 command or null, $5 approval to continue before or null, $6 limit.
 */
const listHistory = statement<StoredApproval & Paged>(
  'approvals.list_history',
  pageText(`select t.*
     from concord.approvals t
    where t.workspace_id = $1::uuid
      and ($2::text is null or t.status = $2)
      and ($3::text is null or t.approval_type = $3)
      and ($4::uuid is null or t.command_id = $4)
      and ($5::uuid is null or t.approval_id < $5)
    order by t.approval_id desc
    limit $6`),
)

export type ListApprovals = {
  readonly workspaceId: string
  /** Only what this person can decide now; open ones only. */
  readonly mine?: boolean
  /** Also the approvals that nobody can decide now, for administrators. */
  readonly alsoBlocked?: boolean
  /** `pending` is sorted by deadline, everything else newest first. */
  readonly status?: ApprovalState | 'all'
  readonly approvalType?: string | undefined
  readonly commandId?: string | undefined
  /** The position of the last row of the page before. */
  readonly after?: readonly string[] | undefined
  readonly limit: number
}

type ApprovalPage = {
  readonly items: readonly StoredApproval[]
  /** Where the next page starts; undefined on the last. */
  readonly next: readonly string[] | undefined
}

export function listApprovals(db: Db, person: Person, query: ListApprovals): Promise<ApprovalPage> {
  const { status = 'pending' } = query
  if (query.mine) return readOwn(db, person, query)
  return status === 'pending' ? readInbox(db, person, query) : readHistory(db, query, status)
}

async function readInbox(db: Db, person: Person, query: ListApprovals): Promise<ApprovalPage> {
  return cutPage(await readRows(db, person, query), query.limit, same, positionOf)
}

const same = <T>(row: T): T => row

function positionOf({ deadline, approval_id }: InboxRow): readonly string[] {
  return [deadline, approval_id]
}

function readRows(db: Db, person: Person, query: ListApprovals): Promise<readonly InboxRow[]> {
  const represented = (person.origins?.stands_for ?? []).map(({ user_id, org_roles }) => ({
    userId: user_id,
    orgRoles: org_roles,
  }))
  const persons = [person, ...represented]
  const [deadline = null, approvalId = null] = query.after ?? []
  return scoped(db, query.workspaceId).read((tx) =>
    tx.run(listInbox, [
      query.workspaceId,
      persons.flatMap(refsOf),
      persons.flatMap(rolesOf),
      query.mine === true && query.alsoBlocked !== true,
      query.approvalType ?? null,
      query.commandId ?? null,
      deadline,
      approvalId,
      // One extra row shows whether there is a next page.
      query.limit + 1,
    ]),
  )
}

/** Open approvals are read by deadline in batches of this size. A page may be short, and then it still has a next position. */
const LOOKED_AT_ONCE = 200
const LOOKS_MAX = 5

/** What the person can decide now, and for administrators what nobody can. */
async function readOwn(db: Db, person: Person, query: ListApprovals): Promise<ApprovalPage> {
  const items: StoredApproval[] = []
  const lookedAt = query.alsoBlocked ? LOOKED_AT_ONCE : query.limit
  let after = query.after
  for (let looks = 0; looks < LOOKS_MAX; looks++) {
    const batch = await readRows(db, person, { ...query, after, limit: lookedAt })
    const { items: rows, next } = cutPage(batch, lookedAt, same, positionOf)
    const standings = query.alsoBlocked ? await findStanding(db, rows) : undefined
    const found = rows.filter(
      (row) =>
        (row.is_asked && findApprover(row, person, row.counted) !== undefined) ||
        standings?.get(row.approval_id)?.blocked !== undefined,
    )
    const fitting = found.slice(0, query.limit - items.length)
    items.push(...fitting)
    const last = fitting.length < found.length ? fitting.at(-1) : rows.at(-1)
    after = last && positionOf(last)
    if (next === undefined && fitting.length === found.length) return { items, next }
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
  return cutPage(rows, query.limit, same, ({ approval_id }) => approval_id)
}

/** $1 workspace, $2 command. */
const listStanding = statement<StoredApproval>(
  'approvals.list_standing',
  `select t.*
     from concord.approvals t
    where t.command_id = $2::uuid and (t.workspace_id = $1::uuid) is true and t.superseded_by is null
    order by t.approval_id`,
)

/** By id and workspace: an approval of another workspace is reported as not found. */
export function getApproval(db: Db, workspaceId: string, approvalId: string): Promise<Decision<StoredApproval>> {
  const scope = scoped(db, workspaceId)
  return scope.read((tx) => approvalTable.get(tx, workspaceId, approvalId))
}

type CommandRef = { readonly workspaceId: string; readonly commandId: string }

/** The open approvals of a command, including those about its effects. */
export async function findPending(
  sql: Sql,
  { workspaceId, commandId }: CommandRef,
): Promise<readonly StoredApproval[]> {
  const rows = await sql.run(listStanding, [workspaceId, commandId])
  return rows.filter(({ status }) => status === 'pending')
}

/**
 * Called right before a command runs, with the hash of the content that would run. Accepts if there is an approval about the
 * command and every one that is not superseded is approved for this content. Only the rows decide, never a payload.
 */
export async function checkApproved(
  sql: Sql,
  { workspaceId, commandId, payloadHash }: CommandRef & { readonly payloadHash: string },
): Promise<Decision<readonly StoredApproval[]>> {
  const rows = await sql.run(listStanding, [workspaceId, commandId])
  const gates = rows.filter(({ domain_effect_id }) => domain_effect_id === null)
  const open = gates.find(({ status }) => status !== 'approved')
  if (open || gates.length === 0) {
    return refuse(
      'approvals.approval.missing',
      `This command is not approved: ${open?.status ?? 'no approval was requested'}.`,
      {
        facts: open ? { status: open.status, approver: showActor(open.approver) } : {},
      },
    )
  }
  const stale = gates.find((gate) => gate.payload_hash !== payloadHash)
  if (stale) {
    return refuse('payload_changed', 'The approved content is not the content that would run.', {
      facts: { payload_hash: stale.payload_hash },
    })
  }
  return accept(gates)
}

export type ApprovalEdit = {
  /** The approval of the edited content, and the one that it replaced. */
  readonly approval_id: string
  readonly of: string
  readonly by: string
  readonly fields: readonly string[]
  readonly reason: string | null
  /** Whether somebody else had to confirm it. */
  readonly is_author: boolean
  readonly before: JsonObject
  readonly after: JsonObject
}

/** $1 workspace, $2 command. One edit may request several approvals: the first of them represents it. */
const listEditRows = statement<ApprovalEdit>(
  'approvals.list_edits',
  `select distinct on (o.approval_id) n.approval_id, o.approval_id as of, n.request_payload->'edits'->>'by' as by,
          n.request_payload->'edits'->'fields' as fields, n.request_payload->'edits'->>'reason' as reason,
          coalesce(n.request_payload->'authors' ? (n.request_payload->'edits'->>'by'), n.request_payload->'edits' ? 'author') as is_author,
          o.request_payload->'arguments' as before, n.request_payload->'arguments' as after
     from concord.approvals n
     join concord.approvals o on o.workspace_id = n.workspace_id
      and o.approval_id = (n.request_payload->'edits'->>'of')::uuid
    where n.workspace_id = $1::uuid and n.command_id = $2::uuid and n.request_payload ? 'edits'
    order by o.approval_id, n.approval_id`,
)

export function listEdits(db: Db, { workspaceId, commandId }: CommandRef): Promise<readonly ApprovalEdit[]> {
  return scoped(db, workspaceId).read((tx) => tx.run(listEditRows, [workspaceId, commandId]))
}

/** One probe of the index of open approvals for each workspace. */
const findOldest = statement<{ readonly age_ms: number | null }>(
  'approvals.find_oldest_pending',
  `select max(extract(epoch from clock_timestamp() - oldest.created_at) * 1000)::double precision as age_ms
     from identity.workspaces w
    cross join lateral (
      select t.created_at from concord.approvals t
       where t.workspace_id = w.id and t.status = 'pending' order by t.created_at limit 1) as oldest`,
)

/** The age of the oldest open approval of all workspaces in milliseconds, for metrics. Undefined: none is open. */
export async function findOldestPending(sql: Sql): Promise<number | undefined> {
  const [row] = await sql.run(findOldest, [])
  return row?.age_ms ?? undefined
}

/** $1 workspace, $2 approvers. */
const usualWaits = statement<{ readonly approver: string; readonly wait_ms: string }>(
  'approvals.usual_waits',
  `select n.approver, percentile_disc(0.5) within group (order by (extract(epoch from n.decided_at - n.created_at) * 1000)::bigint) as wait_ms
     from (select t.approver, t.decided_at, t.created_at from concord.approvals t where t.workspace_id = $1::uuid
            order by t.approval_id desc limit 500) n
    where n.approver = any($2::text[]) and n.decided_at is not null group by n.approver`,
)

/** How long each approver usually takes to decide, in milliseconds. One who has not decided yet is absent. */
export async function findUsualWaits(sql: Sql, workspaceId: string, approvers: readonly string[]) {
  const waits = await sql.run(usualWaits, [workspaceId, approvers])
  return new Map(waits.map(({ approver, wait_ms }) => [approver, Number(wait_ms)]))
}
