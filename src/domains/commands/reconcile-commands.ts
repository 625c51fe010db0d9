/** Wakes what was due long ago and has no living turn: the only thing in this room that looks for work, and only for work that was lost. */
import { failpoint, statement } from '#store'
import type { StoredCommand } from './command-row.ts'
import { queueOf } from './task-of.ts'
import { type CommandDeps, processOf } from './deps.ts'

type Overdue = Pick<StoredCommand, 'command_id' | 'task_name' | 'command_type'>
type Reconciling = Pick<CommandDeps, 'db' | 'now' | 'wake' | 'catalog'>

/** $1 due before, $2 at most so many. */
const listOverdue = statement<Overdue>(
  'commands_list_overdue',
  `select c.command_id, c.task_name, c.command_type from concord.commands as c
where c.completed_at is null and c.run_after <= $1 and (c.turn_until is null or c.turn_until < statement_timestamp())
order by c.run_after limit $2`,
)

/** Shorter than the five seconds within which a committed command is started. */
const GRACE_MS = 2_000
const BATCH = 500
/** Wakes at once: as many as a pool of ten has to spare. */
const AT_ONCE = 8

/** How many were woken; a full batch says that there may be more. */
export async function reconcileCommands(deps: Reconciling, graceMs = GRACE_MS): Promise<number> {
  const rows = await deps.db.run(listOverdue, [new Date(deps.now().getTime() - graceMs), BATCH])
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    await Promise.all(rows.slice(from, from + AT_ONCE).map((command) => rewake(deps, command)))
  }
  return rows.length
}

async function rewake(deps: Reconciling, command: Overdue): Promise<void> {
  await failpoint('commands.reconciling')
  await deps.wake(processOf(command.command_id), queueOf({ deps, command }))
}
