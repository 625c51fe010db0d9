/** Writes down what an effect came to: done, with drift where an undo did other things than it had declared; or unknown. */
import { compensationDrift, decideDrift, hasDrift } from '#kernel/saga/drift'
import { KernelFault } from '#kernel/errors'
import { failpoint } from '#store'
import { requestApproval } from '#domains/approvals'
import { contentOf } from './content.ts'
import { strokesToSave } from './effect-artifacts.ts'
import { reconcileAsk } from './request-approval.ts'
import { taskOf } from './task-of.ts'
import type { StoredEffect } from './command-row.ts'
import type { AttemptFailure } from './decide-outcome.ts'
import type { EffectHandler } from './effect-handler.ts'
import type { Write, WriteDraft } from './draft-write.ts'
import { commitTurn, commitTurnWith, draftOf, type Turn } from './turn.ts'
import { askingOf, byWorker } from './deps.ts'

/** `on`: go on; a time: wait until then; `person`: only a person can tell what happened; `ended`: so did the command; `lost`: stop. */
export type EffectEnd =
  | { readonly t: 'on' | 'person' | 'ended' | 'lost' }
  | { readonly t: 'wait'; readonly until: Date }

export type Done = { readonly result: unknown; readonly emitted: readonly string[]; readonly readBack: unknown }

export async function recordDone(
  turn: Turn,
  effect: StoredEffect,
  handler: EffectHandler,
  { result, emitted, readBack }: Done,
  alongside: (draft: WriteDraft, done: StoredEffect) => void,
): Promise<EffectEnd> {
  const set = {
    result,
    error: null,
    error_class: null,
    run_after: null,
    ...(readBack === undefined ? {} : { read_back: readBack }),
  }
  const payload = {
    attempt: effect.attempt,
    max_attempts: effect.max_attempts,
    idempotency_key: effect.idempotency_key,
    result,
  }
  const outcome = () => {
    const draft = draftOf(turn).moveEffect(effect, 'succeeded', byWorker, set, { payload })
    const drift = handler.isUndo ? decideDrift(handler.produces, emitted) : undefined
    if (drift && hasDrift(drift)) {
      const told = compensationDrift(effect.compensates_effect_id ?? effect.domain_effect_id, drift)
      draft.tell('compensation_drift', byWorker, told.payload)
    }
    return draft
  }
  const draft = outcome()
  alongside(draft, { ...effect, ...set, status: 'succeeded' })
  const writes = strokesToSave(turn.deps.artifacts, turn.pens.get(effect.domain_effect_id), turn.command)
  const commit = (write: Write) => (writes ? commitTurnWith(turn, write, writes) : commitTurn(turn, write))
  // What comes next may have become impossible, by a cancel for one; that it was done is written all the same.
  const isEnd = draft.status === 'succeeded'
  if (isEnd) await failpoint('commands.finishing')
  const isWritten = (await commit(draft.done())) || (!turn.isLost && (await commit(outcome().done())))
  if (isWritten) {
    const recorded = handler.isUndo ? 'commands.undo_recorded' : 'commands.effect_recorded'
    await failpoint(isEnd ? 'commands.finished' : recorded)
    return { t: 'on' }
  }
  return { t: turn.isLost ? 'lost' : 'on' }
}

/** Nobody can know: the effect stays `executing`, and a person is asked what became of it. It is never repeated silently. */
export async function recordUnknown(turn: Turn, effect: StoredEffect, failure: AttemptFailure): Promise<EffectEnd> {
  const { deps, command } = turn
  const draft = draftOf(turn)
  const { message: error, errorClass: error_class } = failure
  draft.setEffect(effect, { error, error_class, run_after: null, read_back: { outcome: 'unknown', asked: true } })
  draft.tell(
    'effect_outcome_unknown',
    byWorker,
    { effect_type: effect.effect_type, attempt: effect.attempt, error, error_class },
    { type: 'effect', id: effect.domain_effect_id },
  )
  if (command.status === 'running') draft.move('blocked', byWorker, { reason: 'outcome_unknown' })
  const isWritten = await commitTurnWith(turn, draft.release(null).done(), async (tx) => {
    const task = taskOf(turn)
    const content = task
      ? contentOf(task, command.payload, [{ effect_type: effect.effect_type, payload: effect.effect_payload }])
      : { arguments: command.payload, effects: [], policy_version: 'none', command_version: 'none' }
    const by = { actor: byWorker.actor, traceId: command.context.trace_id }
    const asked = await requestApproval(tx, askingOf(deps), by, reconcileAsk(command, effect, content, failure))
    if (!asked.ok) throw new KernelFault('commands.approval.refused', asked.reason, { code: asked.code })
  })
  if (isWritten) {
    await failpoint('commands.outcome_asked')
    return { t: 'person' }
  }
  return turn.isLost ? { t: 'lost' } : { t: 'on' }
}
