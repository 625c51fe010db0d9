/** Open approvals whose time to wait for the ones who were asked is over, and whom the next role does not know of yet. */
import { statement } from '#store'

/** Over the row `t`; asked once more by the statement that writes. */
export const isOverdue = `t.status = 'pending' and (t.expires_at is null or t.expires_at > statement_timestamp())
      and t.created_at + make_interval(mins => (t.request_payload->'contract'->'escalation'->>'after_minutes')::int) <= statement_timestamp()
      and not t.request_payload->'contract'->'escalation'->>'role' = any (t.approver_roles)`

/** $1 limit, $2 only this approval, or null. */
export const listEscalations = statement<{ readonly approval_id: string }>(
  'approvals.list_escalations',
  `select t.approval_id
     from concord.approvals t
    where ${isOverdue} and ($2::uuid is null or t.approval_id = $2)
    order by t.created_at, t.approval_id
    limit $1`,
)
