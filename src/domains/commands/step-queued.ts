/** A queued command: it runs when everything it depends on is where it must be, and not at all when it never can be. */
import { listParents } from './command-repository.ts'
import { judgeDependencies } from './dependencies.ts'
import { beginInto, markBegun } from './begin-effect.ts'
import { nextStep } from './next-step.ts'
import { replanInto } from './plan-effects.ts'
import { endFailed, type StepEnd } from './end-failed.ts'
import { commitTurn, draftOf, type Turn } from './turn.ts'
import { bySystem, byWorker } from './deps.ts'

/** Parents wake those who wait for them; this is for the wake that was lost with its process. */
const LOOK_AGAIN_MS = 60_000

export async function stepQueued(turn: Turn): Promise<StepEnd> {
  const parents = await listParents(turn.deps.db, turn.command.command_id)
  const verdict = judgeDependencies(parents)
  switch (verdict.t) {
    case 'waiting': {
      const until = new Date(turn.deps.now().getTime() + LOOK_AGAIN_MS)
      return (await commitTurn(turn, draftOf(turn).stay().release(until).done())) ? { t: 'wait', until } : undefined
    }
    case 'unreachable': {
      const { parent_command_id, status, required_status, propagate_cancellation } = verdict.parent
      const why = { reason: 'dependency_unreachable', parent_command_id, parent_status: status, required_status }
      if (!propagate_cancellation) return endFailed(turn, draftOf(turn), 'validation_error', 'dependency_unreachable')
      const draft = draftOf(turn).set({ cancellation_requested: true, error: 'dependency_unreachable' })
      draft
        .move('cancelled', bySystem, {
          ...why,
          cancel_reason: 'dependency_unreachable',
          cancelled_by: 'system',
          cancellation_mode: turn.command.cancellation_mode,
        })
        .release(null)
      return (await commitTurn(turn, draft.done())) ? { t: 'done' } : undefined
    }
    case 'satisfied':
      return run(turn, parents.length)
  }
}

async function run(turn: Turn, parents: number): Promise<StepEnd> {
  const { command, deps } = turn
  const draft = draftOf(turn)
  if (parents > 0) draft.tell('dependency_satisfied', bySystem, { parents })
  if (command.attempt > 1) {
    const again = replanInto(draft, deps, turn)
    if (!again.ok) return endFailed(turn, draftOf(turn), 'validation_error', again.reason)
  }
  draft.move('running', byWorker)
  // Queued again after effects had succeeded, then cancelled: it leaves the way that undoes them.
  if (command.cancellation_requested)
    draft.move('cancelling', bySystem, {
      cancel_reason: 'requested while queued',
      cancelled_by: 'system',
      cancellation_mode: command.cancellation_mode,
    })
  const next = draft.status === 'running' ? nextStep(turn, deps.now()) : undefined
  const isFirst = next?.t === 'begin' && command.attempt === 1
  if (isFirst) beginInto(draft, turn, next.effect, 'running')
  const isWritten = await commitTurn(turn, draft.done())
  if (isWritten && isFirst) markBegun(turn, next.effect.domain_effect_id)
  return undefined
}
