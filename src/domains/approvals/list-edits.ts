/** What approvers changed in a command, with the arguments before and after: from the rows of its approvals, since events never carry arguments. */
import type { JsonObject } from '#kernel/json-value'
import { type Db, scoped, statement } from '#store'
import type { CommandRef } from './get-approval.ts'

export type ApprovalEdit = {
  /** The approval of the edited content, and the one that it took the place of. */
  readonly approval_id: string
  readonly of: string
  readonly by: string
  readonly fields: readonly string[]
  readonly before: JsonObject
  readonly after: JsonObject
}

/** $1 workspace, $2 command. One edit may ask several again: the first of them tells it. */
const listEditRows = statement<ApprovalEdit>(
  'approvals.list_edits',
  `select distinct on (o.approval_id) n.approval_id, o.approval_id as of, n.request_payload->'edits'->>'by' as by,
          n.request_payload->'edits'->'fields' as fields,
          o.request_payload->'arguments' as before, n.request_payload->'arguments' as after
     from concord.approvals n
     join concord.approvals o on o.workspace_id = n.workspace_id
      and o.approval_id = (n.request_payload->'edits'->>'of')::uuid
    where n.workspace_id = $1::uuid and n.command_id = $2::uuid and n.request_payload ? 'edits'
    order by o.approval_id, n.approval_id`,
)

export function listEdits(db: Db, { workspaceId, commandId }: CommandRef): Promise<readonly ApprovalEdit[]> {
  return scoped(db, workspaceId).read((tx) => tx.run(listEditRows, [workspaceId, commandId]))
}
