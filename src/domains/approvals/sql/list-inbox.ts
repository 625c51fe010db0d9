/** Open approvals by deadline: what waits for me, or everything that waits. What has no deadline comes last. */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'

/** The deadline as text, to the microsecond: a JavaScript date would cut it off and a page would repeat rows. */
export type InboxRow = StoredApproval & { readonly deadline: string }

/**
 * $1 workspace, $2 person, $3 all names under which it can have been asked, $4 its org roles, $5 only its own, $6 type or
 * null, $7 command or null, $8 deadline and $9 approval to start after or null, $10 limit.
 */
export const listInbox = statement<InboxRow>(
  'approvals.list_inbox',
  `select t.*, coalesce(t.expires_at, 'infinity')::text as deadline
     from concord.approvals t
    where t.workspace_id = $1::uuid and t.status = 'pending'
      and (not $5::boolean or (
            (t.approver = any ($3::text[]) or t.approver_roles && $4::text[] or t.request_payload->'approvers' ?| $3::text[])
            and (t.self_decision_allowed or t.requested_by <> $2::text)
            and not $2::text = any (t.approved_by)
            and (t.expires_at is null or t.expires_at > statement_timestamp())))
      and ($6::text is null or t.approval_type = $6)
      and ($7::uuid is null or t.command_id = $7)
      and ($8::text is null or (coalesce(t.expires_at, 'infinity'), t.approval_id) > ($8::timestamptz, $9::uuid))
    order by coalesce(t.expires_at, 'infinity'), t.approval_id
    limit $10`,
)
