/** Describes a command for people: the step it is at, what it waits for, what can happen next and who can do it. Pure. */
import { formatInstant } from '#kernel/instant'
import { decideCancel } from './cancel-command.ts'
import type { CommandType } from './catalog/definitions.ts'
import { decideRetryRun } from './change-command.ts'
import { type CommandWithEffects, REQUEST_INPUT, type StoredEffect } from './command-table.ts'
import { sayAgain } from './standing.ts'
import { readBackOf, sayTaskGone } from './tasks.ts'

type Progress = {
  /** The effect that is under way, or the next one. */
  readonly current_step: string | null
  readonly waiting_reason: string | null
}

export function describeProgress({ command, effects }: CommandWithEffects): Progress {
  if (command.completed_at !== null) return { current_step: null, waiting_reason: null }
  const open =
    effects.find(({ status }) => status === 'executing') ?? effects.find(({ status }) => status === 'planned')
  return { current_step: open?.effect_type ?? null, waiting_reason: waitingReason(command.status, effects, open) }
}

function waitingReason(
  status: string,
  effects: readonly StoredEffect[],
  open: StoredEffect | undefined,
): string | null {
  switch (status) {
    case 'waiting_for_input': {
      const asked = effects.findLast(({ effect_type }) => effect_type === REQUEST_INPUT)
      const fields = asked?.effect_payload['missing_fields']
      return Array.isArray(fields) && fields.length > 0 ? `input: ${fields.join(', ')}` : 'input'
    }
    case 'waiting_for_approval':
      return 'the decision of a person'
    case 'queued':
      return 'its turn, and the commands it depends on'
    case 'blocked':
      return open && readBackOf(open).asked === true
        ? `a person who says whether ${open.effect_type} was done`
        : 'another command'
    default:
      return open?.run_after ? `the next attempt at ${formatInstant(open.run_after)}` : null
  }
}

type NextMove = {
  readonly action:
    | 'wait'
    | 'supply_input'
    | 'decide_approval'
    | 'reconcile_effect'
    | 'cancel'
    | 'retry'
    | 'compensate'
    | 'submit_again'
  readonly by: string[]
  readonly what: string
}

/** What Concord does next, by status. */
const NEXT_BY_CONCORD: Readonly<Record<string, string>> = {
  created: 'It is validated and evaluated by policy.',
  validated: 'Policy decides, or has delayed the decision.',
  approved: 'It is planned and queued.',
  queued: 'It runs when a worker is free and the commands it depends on are done.',
  running: 'Its effects are carried out one after the other.',
  cancelling: 'The effect under way is finished; nothing new starts.',
  compensating: 'Its effects are undone, last first.',
}

export function nextMoves(found: CommandWithEffects, type: CommandType | undefined, maxAttempts: number): NextMove[] {
  const { command, effects } = found
  const { status } = command
  const moves: NextMove[] = []
  const add = (action: NextMove['action'], by: NextMove['by'], what: string) => void moves.push({ action, by, what })
  // An approval has no effect while the task is missing. A queued command has its plan and needs only the handlers of its effects.
  if (!type && (status === 'approved' || status === 'waiting_for_approval'))
    add('wait', ['operator'], `It cannot continue: ${sayTaskGone(command)}.`)
  else if (NEXT_BY_CONCORD[status] !== undefined) add('wait', ['concord'], NEXT_BY_CONCORD[status])
  if (status === 'waiting_for_input') add('supply_input', ['requester', 'admin'], 'Send the missing fields.')
  if (status === 'waiting_for_approval') add('decide_approval', ['approver'], 'Approve, reject, or ask for changes.')
  const isAsked = effects.some((effect) => effect.status === 'executing' && readBackOf(effect).asked)
  if (isAsked) add('reconcile_effect', ['operator'], 'Say whether the effect was done.')
  if (status === 'blocked' && !isAsked) add('wait', ['concord'], 'It waits for the command that it started.')
  if (decideCancel(found).t !== 'nothing') {
    const stop = command.completed_at === null ? 'Stop it' : 'Close it permanently'
    const rest =
      command.cancellation_mode === 'compensate_then_stop' ? ' and undo its effects.' : '; its effects are kept.'
    add('cancel', [...(type?.cancellable_by ?? ['requester', 'admin'])], stop + rest)
  }
  if (decideRetryRun(found, maxAttempts).ok)
    add('retry', ['requester', 'admin'], 'Run it again; effects that succeeded are kept.')
  const again = sayAgain(found)
  if (again !== undefined) add('submit_again', ['requester'], again)
  const isUndoable = effects.some((effect) => effect.status === 'succeeded' && effect.declared_compensation !== null)
  if (status === 'failed' && isUndoable) add('compensate', ['admin'], 'Undo its effects.')
  return moves
}
