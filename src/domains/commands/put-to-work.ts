/** Plans what was allowed and queues it, or begins it where nothing is to be waited for. One commit. */
import { constraintOf, failpoint } from '#store'
import { beginPlannedInto, markBegun } from './begin-effect.ts'
import type { CompiledTask } from './catalog/open-catalog.ts'
import { isSyncTask } from './catalog/primitives.ts'
import type { PolicyQuestion } from './decide-course.ts'
import type { NewEffect, WriteDraft } from './draft-write.ts'
import { endFailed, type StepEnd } from './end-failed.ts'
import { nextStep } from './next-step.ts'
import type { ExecutionPlan } from './plan.ts'
import { planInto } from './plan-effects.ts'
import { asStored, commitTurn, draftOf, type Turn } from './turn.ts'
import { bySystem, byWorker } from './deps.ts'

type Planning = Pick<Turn, 'command' | 'effects'> & {
  readonly policy: Pick<PolicyQuestion['result'], 'decision' | 'metadata'>
  readonly isApproved: boolean
}

export async function putToWork(
  turn: Turn,
  draft: WriteDraft,
  task: CompiledTask,
  { policy, isApproved, ...found }: Planning,
): Promise<StepEnd> {
  const planned = planInto(draft, turn.deps, task, found, { policy, isApproved })
  if (!planned.ok) return endFailed(turn, draftAfter(turn, draft), 'validation_error', planned.reason)
  // Approved, quick and waiting for nobody: there is nothing to queue for.
  const isQuick =
    isApproved &&
    isSyncTask(task.spec) &&
    planned.value.effects.every(({ effect_type }) => turn.deps.catalog.effects.get(effect_type)?.definition.bounded)
  const { command } = turn
  const isFree = !turn.hasParents && !command.cancellation_requested && command.attempt === 1
  if (!isQuick || !isFree) draft.move('queued', bySystem)
  const first = isFree ? beginFirstInto(draft, turn, planned.value) : undefined
  try {
    if ((await commitTurn(turn, draft.done())) && first) markBegun(turn, first.domain_effect_id)
    await failpoint('commands.planned')
    return undefined
  } catch (error) {
    if (constraintOf(error) !== 'idx_domain_effects_idem') throw error
    return endFailed(
      turn,
      draftAfter(turn, draft),
      'validation_error',
      'this deed was already asked for by another command',
    )
  }
}

/** Waiting for nobody, it runs at once: its plan and the beginning of its first effect are one commit. */
function beginFirstInto(
  draft: WriteDraft,
  turn: Turn,
  { plan, effects }: { readonly plan: ExecutionPlan; readonly effects: readonly NewEffect[] },
): NewEffect | undefined {
  draft.move('running', draft.status === 'queued' ? byWorker : bySystem)
  const at = turn.deps.now()
  const rows = effects.map((effect) => asStored(effect, at))
  const next = nextStep({ command: { ...turn.command, plan }, effects: rows }, at)
  const first =
    next.t === 'begin' ? effects.find((each) => each.domain_effect_id === next.effect.domain_effect_id) : undefined
  if (first) beginPlannedInto(draft, turn, first)
  return first
}

/** Nothing of the plan is kept; the moves up to it are. */
function draftAfter(turn: Turn, failed: WriteDraft): WriteDraft {
  const draft = draftOf(turn)
  if (turn.command.status === 'created' && failed.status !== 'created') draft.move('validated', bySystem)
  // `approved` has no way to `failed` but through the queue.
  return turn.command.status === 'approved' ? draft.move('queued', bySystem) : draft
}
