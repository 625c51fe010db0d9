/** Wakes what was due long ago and has no living turn: the only thing in this room that looks for work, and only for work that was lost. */
import { point, statement } from '#store'
import { type CommandWorld, processOf } from './world.ts'

/** $1 due before, $2 at most so many. */
const listOverdue = statement<{ readonly command_id: string }>(
  'commands_list_overdue',
  `select c.command_id from concord.commands as c
where c.completed_at is null and c.run_after <= $1 and (c.turn_until is null or c.turn_until < statement_timestamp())
order by c.run_after limit $2`,
)

/** Shorter than the five seconds within which a committed command is started. */
const GRACE_MS = 2_000
const BATCH = 500
/** Wakes at once: as many as a pool of ten has to spare. */
const AT_ONCE = 8

/** How many were woken; a full batch says that there may be more. */
export async function reconcileCommands(
  world: Pick<CommandWorld, 'db' | 'now' | 'wake'>,
  graceMs = GRACE_MS,
): Promise<number> {
  const rows = await world.db.run(listOverdue, [new Date(world.now().getTime() - graceMs), BATCH])
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    await Promise.all(rows.slice(from, from + AT_ONCE).map(({ command_id }) => rewake(world, command_id)))
  }
  return rows.length
}

async function rewake(world: Pick<CommandWorld, 'wake'>, commandId: string): Promise<void> {
  const stop = point('commands.reconciling')
  if (stop) await stop
  await world.wake(processOf(commandId))
}
