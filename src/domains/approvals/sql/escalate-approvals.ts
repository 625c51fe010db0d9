/** Lets the next role decide too, once per approval: the statement that adds it is the one that finds it missing. */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'

/** $1 limit. Rows that another sweeper holds are left to it. */
export const escalateOverdue = statement<StoredApproval & { readonly role: string }>(
  'approvals.escalate_overdue',
  `with due as (
     select t.approval_id, t.request_payload->'contract'->'escalation'->>'role' as role
       from concord.approvals t
      where t.status = 'pending' and (t.expires_at is null or t.expires_at > statement_timestamp())
        and t.created_at + make_interval(mins => (t.request_payload->'contract'->'escalation'->>'after_minutes')::int) <= statement_timestamp()
        and not t.request_payload->'contract'->'escalation'->>'role' = any (t.approver_roles)
      order by t.created_at, t.approval_id
      limit $1
        for no key update skip locked
   )
   update concord.approvals t set approver_roles = t.approver_roles || due.role
     from due
    where t.approval_id = due.approval_id
   returning t.*, due.role`,
)
