/** Ends a walk back whose undo failed for good: nothing further is undone, and the drift row says how far it came. */
import { planCompensation } from '#kernel/saga/compensation'
import { decideAfterUndoFailure } from '#kernel/saga/compensation'
import type { StoredEffect } from './command-row.ts'
import type { AttemptFailure } from './decide-outcome.ts'
import type { WriteDraft } from './draft-write.ts'
import type { Turn } from './turn.ts'
import { byWorker } from './deps.ts'

/** In the same commit as the failed undo, so that no crash can come between the two. */
export function haltInto(draft: WriteDraft, turn: Turn, row: StoredEffect, failure: AttemptFailure): void {
  const { steps } = planCompensation(turn.effects)
  const failed = steps.find(({ effect_id }) => effect_id === row.compensates_effect_id)
  const undone = turn.effects.filter((each) => each.compensates_effect_id !== null && each.status === 'succeeded')
  const completed = undone.map((each) => ({
    effect_id: each.compensates_effect_id ?? '',
    compensation: each.effect_type,
    begun_as: null,
  }))
  const after =
    failed &&
    decideAfterUndoFailure({
      retry: { retry: false, why: row.attempt >= row.max_attempts ? 'exhausted' : 'not_retryable' },
      failed,
      completed,
      remaining: steps.filter((step) => step !== failed),
      drift: { drift: [], missing: [] },
    })
  const halted = after?.next === 'halt' ? after.event.payload : {}
  const error = `undoing failed: ${failure.message}`
  draft.set({ error, error_class: failure.errorClass })
  draft
    .move('failed', byWorker, (type) =>
      type === 'compensation_drift' ? halted : { error, error_class: failure.errorClass },
    )
    .release(null)
}
