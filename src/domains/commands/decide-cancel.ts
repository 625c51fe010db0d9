/** Where a cancel leads from each state, and who may ask for it. Pure. */
import type { CommandState } from '#kernel/machines/command'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { CommandType } from './catalog/definitions.ts'
import type { CommandWithEffects, StoredCommand } from './command-row.ts'
import { REQUEST_APPROVAL, REQUEST_INPUT } from './request-input.ts'
import type { Acting } from './deps.ts'

export type CancelCourse =
  | { readonly t: 'move'; readonly to: Extract<CommandState, 'cancelled' | 'cancelling'> }
  /** Queued again after effects had succeeded: it leaves through running, so that they are not forgotten. */
  | { readonly t: 'flag' }
  | { readonly t: 'nothing' }

export function decideCancel({ command, effects }: CommandWithEffects): CancelCourse {
  const deeds = effects.filter(({ effect_type }) => effect_type !== REQUEST_APPROVAL && effect_type !== REQUEST_INPUT)
  const hasDone = deeds.some(({ status }) => status === 'succeeded' || status === 'executing')
  switch (command.status) {
    case 'created':
    case 'validated':
    case 'waiting_for_input':
    case 'waiting_for_approval':
    case 'approved':
    case 'failed':
      return { t: 'move', to: 'cancelled' }
    case 'queued':
      if (!hasDone) return { t: 'move', to: 'cancelled' }
      return command.cancellation_requested ? { t: 'nothing' } : { t: 'flag' }
    case 'running':
      return { t: 'move', to: 'cancelling' }
    case 'blocked':
      return { t: 'move', to: hasDone ? 'cancelling' : 'cancelled' }
    case 'cancelling':
    case 'compensating':
    case 'compensated':
    case 'succeeded':
    case 'cancelled':
    case 'expired':
      return { t: 'nothing' }
  }
}

/** The contract names who may: the requester, anybody who may write, administrators. Concord itself always may. */
export function decideMayCancel(
  type: Pick<CommandType, 'cancellable_by'> | undefined,
  command: Pick<StoredCommand, 'requested_by'>,
  by: Acting,
): Decision<null> {
  if (!by.principal || by.kind === 'system') return accept(null)
  const allowed = type?.cancellable_by ?? ['requester', 'admin']
  const isRequester = command.requested_by === by.actor
  const { role } = by.principal
  const may =
    (allowed.includes('requester') && isRequester) ||
    (allowed.includes('admin') && role === 'admin') ||
    (allowed.includes('writer') && (role === 'writer' || role === 'admin'))
  if (may) return accept(null)
  return refuse('commands.action.not_allowed', 'The contract of this command does not let you cancel it.', {
    facts: { allowed },
  })
}

/** Only for operators, and only while nothing is under way: an effect in flight would end under a command that has ended. */
export function decideForce(
  { command, effects }: CommandWithEffects,
  by: Pick<Acting, 'kind'>,
): Decision<CancelCourse> {
  if (by.kind !== 'operator')
    return refuse('commands.action.not_allowed', 'Only an operator may end a command by force.')
  if (command.status !== 'running') return accept(decideCancel({ command, effects }))
  if (effects.some(({ status }) => status === 'executing')) {
    return refuse('commands.command.moved', 'An effect is under way; its outcome must be known first.')
  }
  return accept({ t: 'move', to: 'cancelled' })
}
