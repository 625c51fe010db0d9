/** An approved command whose task left the catalog: its row says so, the log says so, and it looks again until the task is back. */
import { quote, type Refusal, refuse } from '#kernel/refusal'
import { type Sql, statement } from '#store'
import type { StoredCommand } from './command-row.ts'
import type { StepEnd } from './end-failed.ts'
import { ABORT_TOKEN } from './spot-token.ts'
import { commitTurn, draftOf, type Turn } from './turn.ts'

/** A worker with another catalog may come at any time; nobody else tells that the task is back. */
const LOOK_AGAIN_MS = 30_000

export function sayTaskGone({ task_name, command_type }: Pick<StoredCommand, 'task_name' | 'command_type'>): string {
  return `its task ${quote(task_name ?? command_type)} is not in the catalog; it goes on when the task is back`
}

/** To whoever would change what it is asked to do: only its task knows what fits. */
export function refuseTaskGone({
  task_name,
  command_type,
}: Pick<StoredCommand, 'task_name' | 'command_type'>): Refusal {
  return refuse('task_unknown', `The task ${quote(task_name ?? command_type)} of this command is not in the catalog.`, {
    hint: 'Try again when the task is back, or cancel the command.',
  })
}

export async function waitForTask(turn: Turn): Promise<StepEnd> {
  const { command, deps } = turn
  const error = sayTaskGone(command)
  deps.onTaskGone?.({ command_id: command.command_id, task_name: command.task_name ?? command.command_type })
  const until = new Date(deps.now().getTime() + LOOK_AGAIN_MS)
  const write = draftOf(turn).stay().set({ error }).release(until).done()
  return (await commitTurn(turn, write)) ? { t: 'wait', until } : undefined
}

export type ParkedCommand = { readonly command_id: string; readonly error: string; readonly since: Date }

/** $1 limit. An approved command has an error only while its task is gone; it stands still since the last yes. One that an operator has stopped is the runtime's to list. */
const listParkedRows = statement<ParkedCommand>(
  'commands_list_parked',
  `select c.command_id, c.error, coalesce((select max(a.decided_at) from concord.approvals as a
          where a.workspace_id = c.workspace_id and a.command_id = c.command_id), c.updated_at) as since
     from concord.commands as c
    where c.completed_at is null and c.status = 'approved' and c.error is not null
      and c.turn_token is distinct from '${ABORT_TOKEN}'
    order by c.command_id limit $1`,
)

/** Of all workspaces, for operators. */
export function listParked(sql: Sql, limit: number): Promise<readonly ParkedCommand[]> {
  return sql.run(listParkedRows, [limit])
}
