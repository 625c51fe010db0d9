/** How a step ends: with the next turn, at once with the row as it is now, or with the command as failed. */
import type { ErrorClass } from '#kernel/error-classes'
import type { Next } from '#runtime'
import type { WriteDraft } from './draft-write.ts'
import { commitTurn, type Turn } from './turn.ts'
import { bySystem } from './deps.ts'

/** Undefined: go on with the row as it is now. */
export type StepEnd = Next | undefined

export async function endFailed(
  turn: Turn,
  draft: WriteDraft,
  errorClass: ErrorClass,
  error: string,
): Promise<StepEnd> {
  draft
    .set({ error, error_class: errorClass })
    .move('failed', bySystem, { error_class: errorClass, error })
    .release(null)
  return (await commitTurn(turn, draft.done())) ? { t: 'done' } : undefined
}
