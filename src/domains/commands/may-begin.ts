/**
 * What the statement that begins an effect asks: whether the requester may still act, and of an agent whether no stop covers it. If it refuses, the reason is
 * looked up, and the command waits instead.
 */
import type { Folded } from './advance.ts'
import {
  applyChanges,
  type AfterStep,
  applyWrite,
  move,
  releaseTurn,
  set,
  STOPPED,
  systemActor,
  type Write,
} from './change.ts'
import { type CommandWithEffects, isOfAgent, requesterOf, type StoredCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { askRequesterGone, findRequesterGone, isBegin } from './requester.ts'
import { findStopOf, type StoredStop } from './stops/stop.ts'

/** The write with the conditions of the effect that it begins. Undoing goes on without the requester and during a stop. */
export function askBegin({ command, effects }: CommandWithEffects, write: Write, next: AfterStep): Write {
  const begun = applyWrite(effects, write).find(
    ({ domain_effect_id }) => next.t === 'call' && domain_effect_id === next.effectId,
  )
  if (!begun || (write.to ?? command.status) !== 'running') return write
  // The settling of a doubt goes on without the requester. During a stop it waits, since it may act again.
  const requester = isBegin(begun) ? requesterOf(command) : undefined
  return { ...write, requester, isOfAgent: isOfAgent(command) }
}

/** Makes the command wait instead of beginning its next effect. */
export type Hindrance = (folded: Folded, at: Date) => Folded

/** After the write of a begin was refused. Undefined: the row has changed meanwhile. */
export async function findHindrance(deps: CommandDeps, command: StoredCommand): Promise<Hindrance | undefined> {
  if (await findRequesterGone(deps, command)) return (folded, at) => askRequesterGone(deps, folded, at)
  const stop = await findStopOf(deps.db, command)
  return stop && ((folded, at) => waitForLift(folded, stop, at))
}

/** The lift may come before the write that blocks the command, so the command looks again after this time. */
const LOOK_AGAIN_MS = 60_000

function waitForLift(folded: Folded, { stop_id }: StoredStop, at: Date): Folded {
  const { draft, next } = folded
  if (next.t !== 'proceed' || draft.now.command.status !== 'running') return folded
  const until = new Date(at.getTime() + LOOK_AGAIN_MS)
  const changes = [
    set({ error: STOPPED }),
    move('blocked', systemActor, { reason: 'stopped', stop_id }),
    releaseTurn(until),
  ]
  return { draft: applyChanges(draft, changes, at), next: { t: 'wait', until } }
}
