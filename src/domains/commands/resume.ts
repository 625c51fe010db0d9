/** Commits a decision that lets a command go on, in the transaction that made it: the turn begins with the commit, or the command is woken. */
import type { Decision } from '#kernel/refusal'
import type { Tx } from '#store'
import { commitAndResume } from '#turns'
import { applyChanges, applyWrite, type Change, openDraft } from './change.ts'
import { type HeldCommand, processOf, type StoredCommand } from './command-table.ts'
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
