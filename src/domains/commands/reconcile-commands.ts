/** Wakes what was due long ago and has no living turn: the only thing in this room that looks for work, and only for work that was lost. */
import { point, statement } from '#store'
import type { StoredCommand } from './command-row.ts'
import { queueOf } from './task-of.ts'
import { type CommandWorld, processOf } from './world.ts'

type Overdue = Pick<StoredCommand, 'command_id' | 'task_name' | 'command_type'>
type Reconciling = Pick<CommandWorld, 'db' | 'now' | 'wake' | 'catalog'>

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
export async function reconcileCommands(world: Reconciling, graceMs = GRACE_MS): Promise<number> {
  const rows = await world.db.run(listOverdue, [new Date(world.now().getTime() - graceMs), BATCH])
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    await Promise.all(rows.slice(from, from + AT_ONCE).map((command) => rewake(world, command)))
  }
  return rows.length
}

async function rewake(world: Reconciling, command: Overdue): Promise<void> {
  const stop = point('commands.reconciling')
  if (stop) await stop
  await world.wake(processOf(command.command_id), queueOf({ world, command }))
}
