/** The ways out of a command that has begun: cancelling, and the walk back through what it did. */
import { planCompensation, type UndoStep } from '#kernel/saga/compensation'
import { failpoint } from '#store'
import { classifyError } from '#kernel/error-classes'
import { attemptsAllowed } from '#kernel/retry'
import { readBackOf, type StoredEffect } from './command-row.ts'
import { findHandler, retryOf } from './effect-handler.ts'
import type { NewEffect } from './draft-write.ts'
import { awaitedOf, settleAwaited } from './step-blocked.ts'
import { begin } from './begin-effect.ts'
import { recordFailed } from './settle-attempt.ts'
import { judgeOpen } from './next-step.ts'
import type { StepEnd } from './end-failed.ts'
import { continueEffect, endOf, release } from './step-running.ts'
import { commitTurn, draftOf, type Turn } from './turn.ts'
import { byWorker } from './deps.ts'
import { compensationPolicy } from '#kernel/retry-settings'

const LOOK_AGAIN_MS = 60_000

/** What had begun is brought to an end first; nothing new begins. */
export async function stepCancelling(turn: Turn): Promise<StepEnd> {
  const open = turn.effects.find(
    ({ status, compensates_effect_id }) => status === 'executing' && compensates_effect_id === null,
  )
  if (open) return settleOpen(turn, open)
  await failpoint('commands.exit_settled')
  const draft = draftOf(turn)
  for (const { domain_effect_id: id, effect_type } of turn.effects.filter(({ status }) => status === 'planned')) {
    draft.tell('effect_skipped', byWorker, { effect_type, reason: 'cancelled' }, { type: 'effect', id })
  }
  if (turn.command.cancellation_mode === 'compensate_then_stop') {
    await commitTurn(turn, draft.move('compensating', byWorker).done())
    return undefined
  }
  draft.move('cancelled', byWorker).release(null)
  return (await commitTurn(turn, draft.done())) ? { t: 'done' } : undefined
}

/** A failed attempt that waited for its repeat is not repeated any more, unless nobody knows what it did. */
async function settleOpen(turn: Turn, effect: StoredEffect): Promise<StepEnd> {
  const awaited = awaitedOf([effect])
  if (awaited) {
    const end = await settleAwaited(turn, awaited)
    return end === 'open' ? release(turn, new Date(turn.deps.now().getTime() + LOOK_AGAIN_MS)) : end
  }
  const handler = findHandler(turn.deps.catalog, turn, effect)
  if (!handler) {
    const draft = draftOf(turn).set({
      error: `nothing here carries out ${effect.effect_type}`,
      error_class: 'internal_error',
    })
    draft.move('failed', byWorker, { reason: 'the exit broke' }).release(null)
    return (await commitTurn(turn, draft.done())) ? { t: 'done' } : undefined
  }
  const { outcome, asked } = readBackOf(effect)
  if (effect.run_after !== null && (outcome === 'not_done' || handler.class === 'read')) {
    const failure = {
      errorClass: classifyError(effect.error_class),
      message: effect.error ?? 'cancelled',
      happened: 'no' as const,
    }
    return endOf(turn, await recordFailed(turn, effect, failure, []))
  }
  // A person has been asked and has not answered yet.
  if (asked) return release(turn, null)
  return endOf(turn, await continueEffect(turn, effect))
}

export async function stepCompensating(turn: Turn): Promise<StepEnd> {
  const { steps, unsettled } = planCompensation(turn.effects)
  const doubtful = turn.effects.find(({ domain_effect_id }) => domain_effect_id === unsettled[0])
  if (doubtful) return settleOpen(turn, doubtful)
  const [step] = steps
  if (!step) return finishCompensation(turn)
  const begun = turn.effects.find(({ domain_effect_id }) => domain_effect_id === step.begun_as)
  if (!begun) {
    await commitTurn(turn, draftOf(turn).stay().plan(undoEffect(turn, step), byWorker).done())
    await failpoint('commands.undo_planned')
    return undefined
  }
  const next = judgeOpen(begun, turn.deps.now())
  switch (next.t) {
    case 'wait':
      return release(turn, next.until)
    case 'begin':
    case 'again':
      await begin(turn, begun, 'compensating')
      return undefined
    case 'in_doubt': {
      if (readBackOf(begun).asked) return release(turn, null)
      return endOf(turn, await continueEffect(turn, begun))
    }
  }
}

/** A cancelled command ends cancelled; one that was undone after a failure ends compensated. */
export async function finishCompensation(turn: Turn): Promise<StepEnd> {
  await failpoint('commands.undo_finishing')
  const draft = draftOf(turn)
  if (turn.command.status === 'compensating') draft.move('compensated', byWorker)
  if (turn.command.cancellation_requested) draft.move('cancelled', byWorker)
  return (await commitTurn(turn, draft.release(null).done())) ? { t: 'done' } : undefined
}

function undoEffect(turn: Turn, step: UndoStep): NewEffect {
  const { deps, effects } = turn
  const before = effects.filter(({ compensates_effect_id }) => compensates_effect_id === step.effect_id).length
  const undone = effects.find(({ domain_effect_id }) => domain_effect_id === step.effect_id)
  return {
    domain_effect_id: deps.newId(),
    effect_type: `compensation.${step.compensation}`,
    effect_payload: { effect_id: step.effect_id, compensation: step.compensation, of: undone?.effect_type ?? null },
    // An undo that is known to have failed is another deed than the one that is tried now.
    idempotency_key: before === 0 ? `undo:${step.effect_id}` : `undo:${step.effect_id}:${before + 1}`,
    status: 'planned',
    executed_by_runtime_workflow_id: null,
    result: null,
    compensates_effect_id: step.effect_id,
    declared_compensation: null,
    declaration_order: effects.length,
    attempt: 0,
    // As the undo itself is tried: a catalog may bring its own policy for compensation.
    max_attempts: attemptsAllowed(retryOf(deps.catalog, compensationPolicy.operation).limit),
    turn_token: null,
    reversibility: 'irreversible',
    completed_at: null,
  }
}
