/**
 * Writes what lets a command go on, in the transaction of the fact that does: an answer, an input, a second run. The same write takes the
 * turn where this process has a place, and the turn begins with the commit; otherwise the transaction wakes the command.
 */
import type { Decision } from '#kernel/refusal'
import type { Tx } from '#store'
import type { HeldCase } from './command-repository.ts'
import type { WriteDraft } from './draft-write.ts'
import { queueOf } from './task-of.ts'
import { applyWrite } from './turn.ts'
import { type CommandDeps, processOf } from './deps.ts'
import { commitWrite, type WriteResult } from './write-lane.ts'

/** `found` is locked by this very transaction. */
export async function commitAndGoOn(
  deps: CommandDeps,
  tx: Tx,
  found: HeldCase,
  draft: WriteDraft,
): Promise<Decision<WriteResult>> {
  const { command_id: commandId } = found.command
  const { queue } = queueOf({ deps, command: found.command })
  // What a person has ended, or asked for more about, goes nowhere now.
  const goes = draft.status !== found.command.status && !draft.isEnd
  const offer = goes && queue !== undefined ? deps.spot?.offer(queue) : undefined
  if (offer) draft.take(offer)
  const write = draft.done()
  const written = await commitWrite(tx, write).catch((error: unknown) => {
    // It may be tried again at once, and then needs the place.
    offer?.release()
    throw error
  })
  const isOurs = offer !== undefined && written.ok && written.value.command.turn_token === offer.token
  if (!isOurs) offer?.release()
  if (!written.ok) return written
  const { command, touched } = written.value
  if (isOurs) {
    tx.afterRollback(() => offer.release())
    const effects = applyWrite(found.effects, write, touched)
    tx.afterCommit(() => offer.start({ command, effects, hasParents: found.hasParents }))
  } else await deps.wake(processOf(commandId), { tx, ...(queue === undefined ? {} : { queue }) })
  return written
}
