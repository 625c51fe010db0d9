/**
 * Locks every approval that still counts about one subject (a command, or one effect of it), always in the same order: two
 * answers to two approvals of one command see each other, and the last of them knows that it is the last.
 */
import { statement } from '#store'
import type { StoredApproval } from '../stored-approval.ts'

/** $1 workspace, $2 command, $3 effect or null. */
export const lockQuestions = statement<StoredApproval & { readonly asked_at: Date }>(
  'approvals.lock_questions',
  `select t.*, statement_timestamp() as asked_at
     from concord.approvals t
    where t.workspace_id = $1::uuid and t.command_id = $2::uuid and t.domain_effect_id is not distinct from $3::uuid
      and t.superseded_by is null
    order by t.approval_id
      for no key update`,
)
