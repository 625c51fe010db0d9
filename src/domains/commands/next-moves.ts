/** What can happen to a command now, and who can make it happen. Pure: from the state and its contract alone. */
import type { CommandType } from './catalog/definitions.ts'
import type { CommandWithEffects } from './command-table.ts'
import { readBackOf } from './effect-handler.ts'
import { decideCancel } from './cancel-command.ts'
import { decideRetryRun } from './change-command.ts'
import { sayTaskGone } from './tasks.ts'

export type NextMove = {
  readonly action: 'wait' | 'supply_input' | 'decide_approval' | 'reconcile_effect' | 'cancel' | 'retry' | 'compensate'
  readonly by: readonly string[]
  readonly what: string
}

const STILL_TO_COME: Readonly<Record<string, string>> = {
  created: 'It is checked and put to policy.',
  validated: 'Policy decides, or has asked to wait a moment.',
  approved: 'It is planned and queued.',
  queued: 'It runs when a worker is free and the commands before it are done.',
  running: 'Its effects are carried out one after the other.',
  cancelling: 'What is under way is finished; nothing new starts.',
  compensating: 'What it did is undone, last first.',
}

export function nextMoves(
  found: CommandWithEffects,
  type: CommandType | undefined,
  maxAttempts: number,
): readonly NextMove[] {
  const { command, effects } = found
  const moves: NextMove[] = []
  // Nobody's yes helps while the task is gone; what is queued has its plan and goes on by its effects.
  const isGone = !type && (command.status === 'approved' || command.status === 'waiting_for_approval')
  const said = isGone ? undefined : STILL_TO_COME[command.status]
  if (isGone) {
    const what = `It stands still: ${sayTaskGone(command)}.`
    moves.push({ action: 'wait', by: ['operator'], what })
  }
  if (said !== undefined) moves.push({ action: 'wait', by: ['concord'], what: said })
  if (command.status === 'waiting_for_input')
    moves.push({ action: 'supply_input', by: ['requester', 'admin'], what: 'Send the missing fields.' })
  if (command.status === 'waiting_for_approval')
    moves.push({ action: 'decide_approval', by: ['approver'], what: 'Approve, reject, or ask for changes.' })
  const unknown = effects.some((effect) => effect.status === 'executing' && readBackOf(effect).asked)
  if (unknown) moves.push({ action: 'reconcile_effect', by: ['operator'], what: 'Say whether the effect was done.' })
  if (command.status === 'blocked' && !unknown)
    moves.push({ action: 'wait', by: ['concord'], what: 'It waits for the command that it set going.' })
  if (decideCancel(found).t !== 'nothing') {
    const stop = command.completed_at === null ? 'Stop it' : 'Close it for good'
    const rest =
      command.cancellation_mode === 'compensate_then_stop' ? ' and undo what it did.' : '; what was done stays done.'
    moves.push({ action: 'cancel', by: type?.cancellable_by ?? ['requester', 'admin'], what: stop + rest })
  }
  if (decideRetryRun(found, maxAttempts).ok)
    moves.push({ action: 'retry', by: ['requester', 'admin'], what: 'Run it again; what succeeded is kept.' })
  if (
    command.status === 'failed' &&
    effects.some(({ status, declared_compensation }) => status === 'succeeded' && declared_compensation !== null)
  ) {
    moves.push({ action: 'compensate', by: ['admin'], what: 'Undo what it did before it failed.' })
  }
  return moves
}
