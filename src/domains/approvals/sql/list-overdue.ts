/** Open approvals whose time is over, the oldest first; the partial index holds open ones only. */
import { statement } from '#store'

export type OverdueRow = { readonly approval_id: string; readonly workspace_id: string }

/** $1 limit, $2 only this approval, or null. */
export const listOverdue = statement<OverdueRow>(
  'approvals.list_overdue',
  `select approval_id, workspace_id
     from concord.approvals
    where status = 'pending' and expires_at <= statement_timestamp() and ($2::uuid is null or approval_id = $2)
    order by expires_at, approval_id
    limit $1`,
)
