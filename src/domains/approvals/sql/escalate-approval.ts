/** Lets the next role decide too, once: the statement that adds it is the one that finds it missing. */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'
import { isOverdue } from './list-escalations.ts'

/** $1 approval. No row when another sweeper was first, or it was answered meanwhile. */
export const escalateApproval = statement<StoredApproval & { readonly role: string }>(
  'approvals.escalate',
  `update concord.approvals t
      set approver_roles = t.approver_roles || (t.request_payload->'contract'->'escalation'->>'role')
    where t.approval_id = $1::uuid and ${isOverdue}
   returning t.*, t.request_payload->'contract'->'escalation'->>'role' as role`,
)
