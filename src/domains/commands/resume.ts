/** Lets commands go on: one by a decision, in the transaction that made it, and those that waited for a command once its move is committed. */
import type { Decision } from '#kernel/refusal'
import type { Tx } from '#store'
import { commitAndResume } from '#turns'
import { applyChanges, applyWrite, type Change, openDraft } from './change.ts'
import { type HeldCommand, listTasksOf, processOf, type StoredCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { queueOf } from './tasks.ts'

/** `found` is locked by this very transaction. */
export async function resumeCommandWith(
  deps: CommandDeps,
  tx: Tx,
  found: HeldCommand,
  changes: readonly Change[],
): Promise<Decision<StoredCommand>> {
  const at = deps.now()
  const { now, write } = applyChanges(openDraft(found, 'any', at), changes, at, deps.newId)
  // A command that a person has ended, or asked more about, goes nowhere now.
  const goesOn = now.command.status !== found.command.status && !(write.set.completed_at instanceof Date)
  const process = processOf(found.command.command_id)
  const { queue } = queueOf(deps.catalog, found.command)
  const resumed = await commitAndResume(deps, tx, { process, queue, goesOn }, async (takes) => {
    const written = await deps.writes.commitIn(tx, write, takes)
    if (!written.ok) return written
    const { command, touched } = written.value
    const effects = applyWrite(found.effects, write, touched)
    return { ok: true, value: { turnToken: command.turn_token, found: { ...found, command, effects } } }
  })
  return resumed.ok ? { ok: true, value: resumed.value.found.command } : resumed
}

/** A read of its own: most commands have no dependents, and their write stays as short as it is. */
export async function wakeDependents(
  { db, catalog, wake }: Pick<CommandDeps, 'db' | 'catalog' | 'wake'>,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return
  for (const row of await db.run(listTasksOf, [ids])) await wake(processOf(row.command_id), queueOf(catalog, row))
}
