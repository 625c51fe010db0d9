/**
 * The life of a command in turns: read the row, take one step, write what it decided, until it must wait or has ended. The
 * body only branches on what rows say; every decision is a pure function in a file of its own.
 */
import type { Drive, Next } from '#runtime'
import { failpoint } from '#store'
import { isUnreadable, quarantine, unreadable } from './quarantine.ts'
import { findSpotTurn, takeTurn } from './command-repository.ts'
import { inputDeadline } from './request-input.ts'
import { stepBlocked } from './step-blocked.ts'
import type { StepEnd } from './end-failed.ts'
import { stepApproved } from './step-approved.ts'
import { stepIntake } from './step-intake.ts'
import { finishCompensation, stepCancelling, stepCompensating } from './step-leaving.ts'
import { stepQueued } from './step-queued.ts'
import { release, stepRunning } from './step-running.ts'
import { commitTurn, draftOf, openTurn, type Turn, TURN_MS } from './turn.ts'
import { bySystem, type CommandDeps } from './deps.ts'

/** A turn ends after so many steps or so long, and goes on in another: no command holds a worker for ever. */
const STEPS_MAX = 60
const SLICE_MS = 5_000

export function openDrive(deps: CommandDeps): Drive {
  return async (commandId, fence): Promise<Next> => {
    const askedAt = deps.now()
    const found = await takeTurn(deps.db, commandId, fence.token, TURN_MS)
    if (!found) return nextOfHeld(deps, commandId)
    if (fence.attempt > 1) {
      await failpoint('commands.taken_over')
    }
    return driveTurn(openTurn(deps, fence, found, askedAt))
  }
}

/** Steps until the command waits, has ended, or has had its share. */
export async function driveTurn(turn: Turn): Promise<Next> {
  const { deps } = turn
  const startedMs = deps.now().getTime()
  try {
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      if (turn.isLost || turn.signal.aborted) break
      const end = await takeStep(turn)
      if (end) return end
      if (deps.now().getTime() - startedMs >= SLICE_MS) break
    }
  } catch (error) {
    if (isUnreadable(error)) return quarantine(turn, error)
    throw error
  }
  return turn.isLost ? { t: 'done' } : { t: 'again' }
}

/**
 * Ended, unknown, or in the hands of a later turn: there is nothing to do. A turn on the spot goes on by itself and sees whatever we were
 * woken for at its next write; if it has died, its time runs out. One that has ended since we asked for the row has not seen it: its last
 * write may be older than the wake.
 */
async function nextOfHeld({ db }: CommandDeps, commandId: string): Promise<Next> {
  const until = await findSpotTurn(db, commandId)
  if (until === undefined) return { t: 'done' }
  return until === null ? { t: 'again' } : { t: 'wait', until }
}

async function takeStep(turn: Turn): Promise<StepEnd> {
  switch (turn.command.status) {
    case 'created':
    case 'validated':
      return stepIntake(turn)
    case 'waiting_for_input':
      return stepWaitingForInput(turn)
    case 'waiting_for_approval':
      return release(turn, null)
    case 'blocked':
      return stepBlocked(turn)
    case 'approved':
      return stepApproved(turn)
    case 'queued':
      return stepQueued(turn)
    case 'running':
      return stepRunning(turn)
    case 'cancelling':
      return stepCancelling(turn)
    case 'compensating':
      return stepCompensating(turn)
    case 'compensated':
      return turn.command.cancellation_requested ? finishCompensation(turn) : { t: 'done' }
    case 'succeeded':
    case 'failed':
    case 'cancelled':
    case 'expired':
      return { t: 'done' }
    default:
      throw unreadable('its state is none of the machine', { status: turn.command.status })
  }
}

async function stepWaitingForInput(turn: Turn): Promise<StepEnd> {
  const deadline = inputDeadline(turn.effects)
  if (deadline === null || deadline > turn.deps.now()) return release(turn, deadline)
  const draft = draftOf(turn).move('expired', bySystem, { reason: 'no input arrived in time' }).release(null)
  return (await commitTurn(turn, draft.done())) ? { t: 'done' } : undefined
}
