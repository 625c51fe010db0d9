/** A command that waits for another one which one of its effects set going: blocked until that one ends, then on with its result. */
import { encodeId } from '#kernel/ids'
import { isUuid } from '#kernel/uuid'
import { KernelFault } from '#kernel/errors'
import { sayState } from '#kernel/say-state'
import { findAwaited, insertWait } from './command-repository.ts'
import { readBackOf, type StoredEffect } from './command-row.ts'
import type { AwaitedEnd } from './catalog/effect-definition.ts'
import type { ExecutionPlan } from './plan.ts'
import type { EffectEnd } from './record-outcome.ts'
import type { StepEnd } from './end-failed.ts'
import { commitTurn, commitTurnWith, draftOf, type Turn } from './turn.ts'
import { bySystem, byWorker } from './deps.ts'

const LOOK_AGAIN_MS = 60_000

/** The wait is a dependency like any other: the end of the awaited command marks and wakes this one. */
export async function recordPending(
  turn: Turn,
  effect: StoredEffect,
  { commandId, wanted }: { readonly commandId: string; readonly wanted: AwaitedEnd },
): Promise<EffectEnd> {
  const { command, deps } = turn
  if (!isUuid(commandId))
    throw new KernelFault('commands.effect.pending', 'an effect waits for something that is no command')
  const waits = { outcome: 'waiting', command_id: commandId, ...(wanted === 'succeeded' ? {} : { wanted }) }
  const draft = draftOf(turn).setEffect(effect, { read_back: waits })
  if (command.status === 'running')
    draft.move('blocked', byWorker, { reason: 'child_command', child_command_id: commandId })
  const at = deps.now()
  const isWritten = await commitTurnWith(turn, draft.done(), (tx) => insertWait(tx, command, commandId, at))
  // Not released yet: the awaited one may have ended before it was written down that somebody waits.
  return { t: isWritten || !turn.isLost ? 'on' : 'lost' }
}

export function awaitedOf(
  effects: readonly StoredEffect[],
): { readonly effect: StoredEffect; readonly commandId: string } | undefined {
  for (const effect of effects.filter(({ status }) => status === 'executing')) {
    const { outcome, command_id: commandId } = readBackOf(effect)
    if (outcome === 'waiting' && commandId !== undefined) return { effect, commandId }
  }
  return undefined
}

export async function stepBlocked(turn: Turn): Promise<StepEnd> {
  const awaited = awaitedOf(turn.effects)
  // Blocked by a question to a person: the answer wakes it.
  if (!awaited) return releaseBlocked(turn, null)
  const end = await settleAwaited(turn, awaited)
  return end === 'open' ? releaseBlocked(turn, new Date(turn.deps.now().getTime() + LOOK_AGAIN_MS)) : end
}

/** Also for commands on their way out: what they wait for must have ended first. */
export async function settleAwaited(
  turn: Turn,
  { effect, commandId }: { effect: StoredEffect; commandId: string },
): Promise<StepEnd | 'open'> {
  const child = await findAwaited(turn.deps.db, turn.command.workspace_id, commandId)
  if (child && child.completed_at === null) return 'open'
  const draft = draftOf(turn)
  const isBlocked = turn.command.status === 'blocked'
  const wanted = readBackOf(effect).wanted ?? 'succeeded'
  if (child?.status === wanted) {
    const result =
      wanted === 'succeeded'
        ? (child.result ?? {})
        : { command_id: encodeId('command', commandId), status: child.status }
    draft.moveEffect(
      effect,
      'succeeded',
      byWorker,
      { result, read_back: { outcome: 'done', command_id: commandId } },
      { payload: { child_command_id: commandId } },
    )
    if (isBlocked) draft.move('running', byWorker, { child_command_id: commandId })
    await commitTurn(turn, draft.done())
    return undefined
  }
  const errorClass = child?.error_class ?? 'internal_error'
  const error = `the command it waited for ${sayState(child?.status ?? 'gone')}: ${child?.error ?? ''}`
  draft.moveEffect(
    effect,
    'failed',
    byWorker,
    { error, error_class: errorClass },
    { payload: { child_command_id: commandId, error_class: errorClass } },
  )
  if (!isBlocked) {
    await commitTurn(turn, draft.done())
    return undefined
  }
  draft.set({ error, error_class: errorClass })
  if (isTerminalOnChildFailure(turn.command.plan, effect)) {
    // The end of the child is a cancel of this one: the way it leaves is its own mode's, and what it had done is not forgotten.
    draft.set({ cancellation_requested: true }).move('cancelling', bySystem, {
      cancellation_mode: turn.command.cancellation_mode,
      cancel_reason: error,
      cancelled_by: bySystem.actor,
      child_command_id: commandId,
    })
    await commitTurn(turn, draft.done())
    return undefined
  }
  draft.move('failed', byWorker, { error_class: errorClass, child_command_id: commandId }).release(null)
  return (await commitTurn(turn, draft.done())) ? { t: 'done' } : undefined
}

/** Said on the step of the plan that waits: without its child the whole command makes no sense. */
function isTerminalOnChildFailure(
  plan: ExecutionPlan | null,
  { domain_effect_id }: Pick<StoredEffect, 'domain_effect_id'>,
): boolean {
  const step = plan?.steps.find(({ metadata }) => metadata['domain_effect_id'] === domain_effect_id)
  return step?.metadata['terminal_on_child_failure'] === true
}

async function releaseBlocked(turn: Turn, until: Date | null): Promise<StepEnd> {
  return (await commitTurn(turn, draftOf(turn).stay().release(until).done())) ? { t: 'wait', until } : undefined
}
