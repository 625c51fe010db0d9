/** All approvals of a command that nothing has replaced. */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'

/** $1 workspace, $2 command. */
export const listStanding = statement<StoredApproval>(
  'approvals.list_standing',
  `select t.*
     from concord.approvals t
    where t.workspace_id = $1::uuid and t.command_id = $2::uuid and t.superseded_by is null
    order by t.approval_id`,
)
