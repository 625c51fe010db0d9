/** Takes every gate of a command out of the way that no longer counts and is not among the ones asked now. */
import { statement } from '#store'

/** $1 workspace, $2 command, $3 the ones asked now, $4 the one that takes the place, $5 its hash. A refusal stays. */
export const replaceApprovals = statement<{ readonly approval_id: string }>(
  'approvals.replace',
  `update concord.approvals t set superseded_by = $4::uuid
    where t.workspace_id = $1::uuid and t.command_id = $2::uuid and t.domain_effect_id is null and t.superseded_by is null
      and t.approval_id <> all ($3::uuid[])
      and (t.status in ('changes_requested', 'expired', 'cancelled') or (t.status = 'approved' and t.payload_hash <> $5::text))
   returning t.approval_id`,
)
