/** Approvals of any status, newest first: ids rise with time. */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'

/** $1 workspace, $2 status or null for all, $3 type or null, $4 command or null, $5 approval to go on before or null, $6 limit. */
export const listHistory = statement<StoredApproval>(
  'approvals.list_history',
  `select t.*
     from concord.approvals t
    where t.workspace_id = $1::uuid
      and ($2::text is null or t.status = $2)
      and ($3::text is null or t.approval_type = $3)
      and ($4::uuid is null or t.command_id = $4)
      and ($5::uuid is null or t.approval_id < $5)
    order by t.approval_id desc
    limit $6`,
)
