/** The command that a due time became, if it did. */
import { statement } from '#store'

export type FiredRow = { readonly command_id: string; readonly created_at: Date; readonly completed_at: Date | null }

/** $1 workspace, $2 key. */
export const findFired = statement<FiredRow>(
  'schedules.find_fired',
  `select c.command_id, c.created_at, c.completed_at
     from concord.commands c
    where c.workspace_id = $1::uuid and c.idempotency_key = $2 and c.ingress = 'scheduled_trigger'`,
)
