/** A command that waits for the end of another: the wait written down, and how the other one stands. */
import { statement } from '#store'
import type { StoredCommand } from '../command-row.ts'

/** $1 who waits, $2 for whom, $3 workspace, $4 now. */
export const insertWait = statement<{ readonly child_command_id: string }>(
  'commands_insert_wait',
  `insert into concord.command_dependencies (child_command_id, parent_command_id, workspace_id, propagate_cancellation, created_at)
values ($1, $2, $3, false, $4) on conflict (child_command_id, parent_command_id) do nothing returning child_command_id`,
)

export type AwaitedRow = Pick<StoredCommand, 'status' | 'result' | 'error' | 'error_class' | 'completed_at'>

/** $1 command, $2 workspace. */
export const findAwaited = statement<AwaitedRow>(
  'commands_find_awaited',
  `select status, result, error, error_class, completed_at from concord.commands where command_id = $1 and workspace_id = $2`,
)
