/**
 * One person's answer, decided by one statement: in time, still open, for the content that was shown, not by the requester
 * unless allowed, and each person once. Of any number of voters at once each sees the votes before its own, so exactly one
 * of them completes the quorum.
 */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'

const isFinal = `($4::text <> 'approved' or cardinality(t.approved_by) + 1 >= t.approvals_required)`

/** $1 approval, $2 workspace, $3 person, $4 the state to reach, $5 reason, $6 hash of what was decided about. */
export const castVote = statement<StoredApproval>(
  'approvals.cast_vote',
  `update concord.approvals t set
     approved_by = case when $4::text = 'approved' then t.approved_by || $3::text else t.approved_by end,
     status = case when ${isFinal} then $4::text else t.status end,
     decided_at = case when ${isFinal} then statement_timestamp() end,
     decided_by = case when ${isFinal} then $3::text end,
     decision_reason = case when ${isFinal} then $5::text end
   where t.approval_id = $1::uuid and t.workspace_id = $2::uuid and t.status = 'pending'
     and (t.expires_at is null or t.expires_at > statement_timestamp())
     and t.payload_hash = $6::text
     and ($4::text <> 'approved' or not $3::text = any (t.approved_by))
     and (t.self_decision_allowed or t.requested_by <> $3::text)
   returning t.*`,
)
