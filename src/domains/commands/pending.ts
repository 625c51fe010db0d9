/** What follows when an effect waits: for another command, for a process of another room, for a time or a signal, for the end of a call that was interrupted. Pure. */
import { KernelFault } from '#kernel/errors'
import { isUuid } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import {
  aboutEffect,
  type Change,
  emitEvent,
  type LookUp,
  move,
  proceed,
  rest,
  type Step,
  workerActor,
} from './change.ts'
import type { Awaits } from './catalog/effect-definition.ts'
import { WAIT_FOR_SIGNAL } from './catalog/steps.ts'
import type { CommandWithEffects, StoredCommand, StoredEffect } from './command-table.ts'
import { type EffectHandler, readBackOf } from './tasks.ts'

/** How often a wait for a process is looked at without a wake. */
export const PROCESS_AGAIN_MS = 60_000

/** A wait for a command is a dependency like any other: the end of the awaited command marks and wakes this one. */
export function recordPending({ command }: CommandWithEffects, effect: StoredEffect, awaits: Awaits, at: Date): Step {
  if ('until' in awaits) return awaitTime(command, effect, awaits.until, at)
  const wait = (read_back: object): Change => ({
    t: 'effect',
    id: effect.domain_effect_id,
    by: workerActor,
    set: { read_back },
  })
  if ('process' in awaits) return { changes: [wait({ outcome: 'waiting', process: awaits.process })], next: proceed }
  const { commandId, wanted } = awaits
  if (!isUuid(commandId))
    throw new KernelFault('commands.effect.pending', 'the effect waits for an id that is not a command id')
  const waits = wait({ outcome: 'waiting', command_id: commandId, ...(wanted === 'succeeded' ? {} : { wanted }) })
  const blocked = move('blocked', workerActor, { reason: 'child_command', child_command_id: commandId })
  const changes = command.status === 'running' ? [waits, blocked] : [waits]
  return { changes, next: { t: 'follow', commandId } }
}

/** The turn ends with this write, so a wait takes no slot of a queue. A wake during the turn leads to another one. */
function awaitTime({ status }: Pick<StoredCommand, 'status'>, effect: StoredEffect, until: Date, at: Date): Step {
  const { domain_effect_id: id, effect_type, effect_payload } = effect
  const set = { run_after: until, read_back: { outcome: 'waiting' } }
  const waits: Change = { t: 'effect', id, by: workerActor, set }
  // A command that was cancelled meanwhile does not wait.
  if (until <= at || status !== 'running') return { changes: [waits], next: proceed }
  const { name, key, from } = effect_payload
  const about = {
    effect_type,
    until: formatInstant(until),
    ...(effect_type === WAIT_FOR_SIGNAL ? { name, key, from } : {}),
  }
  const isKnown = effect.run_after?.getTime() === until.getTime()
  const started = isKnown ? [] : [emitEvent('wait_started', workerActor, about, aboutEffect(effect))]
  return rest(until, waits, ...started)
}

/** The end of the wait wakes the command. The poll covers a wake of a process that was lost with its worker. */
export function waitOn({ run_after: until }: Pick<StoredEffect, 'run_after'>, at: Date): Step {
  return rest(until && until > at ? until : new Date(at.getTime() + PROCESS_AGAIN_MS))
}

/** Between the record of a begin and the arrival of a request whose caller has used up its whole time limit. */
const ARRIVAL_MS = 2_000

type TimeLimit = Pick<EffectHandler, 'isOutward' | 'timeoutMs'>

/** From then on the provider does not work on the call any more, and no driver still sends it. */
export function settlesAt(
  { command }: CommandWithEffects,
  effect: StoredEffect,
  { isOutward, timeoutMs }: TimeLimit,
  at: Date,
): Date {
  if (!isOutward) return at
  const { settles_at } = readBackOf(effect)
  // The row of the command was written with the begin of the call, or later.
  const begunMs = Math.min(command.updated_at.getTime(), at.getTime())
  return settles_at === undefined ? new Date(begunMs + timeoutMs + ARRIVAL_MS) : new Date(settles_at)
}

/**
 * The provider does not have a call whose driver ended, or which failed without an answer. That is proof only after the time limit of the call. The effect is then
 * looked up again, without another attempt. Undefined: it is proof.
 */
export function waitToSettle(
  found: CommandWithEffects,
  effect: StoredEffect,
  handler: TimeLimit,
  { why, cause }: LookUp,
  at: Date,
): Step | undefined {
  const until = settlesAt(found, effect, handler, at)
  if (until <= at) return undefined
  const read_back = { outcome: 'unknown', settles_at: formatInstant(until), ...(why === 'failed' && { cause }) }
  return rest(until, { t: 'effect', id: effect.domain_effect_id, by: workerActor, set: { read_back } })
}
