/** Where a command stands, in words for people: the step it is at and what it waits for. Nothing about the runtime. Pure. */
import { formatInstant } from '#kernel/instant'
import type { CommandWithEffects, StoredEffect } from './command-table.ts'
import { readBackOf } from './effect-handler.ts'

export type Progress = {
  /** The effect that is under way, or the next one. */
  readonly current_step: string | null
  readonly waiting_reason: string | null
}

const isOpen = ({ status }: StoredEffect) => status === 'executing' || status === 'planned'

export function describeProgress({ command, effects }: CommandWithEffects): Progress {
  if (command.completed_at !== null) return { current_step: null, waiting_reason: null }
  const open = effects.find(({ status }) => status === 'executing') ?? effects.find(isOpen)
  return { current_step: open?.effect_type ?? null, waiting_reason: waitingReason(command.status, effects, open) }
}

function waitingReason(
  status: string,
  effects: readonly StoredEffect[],
  open: StoredEffect | undefined,
): string | null {
  switch (status) {
    case 'waiting_for_input': {
      const asked = effects.findLast(({ effect_type }) => effect_type === 'user.request_input')
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
