/**
 * Rebuilds the state of a command and its effects from its events alone. Pure. A row that differs was changed without an event, or an
 * event was lost.
 */
import { commandMachine } from '#kernel/machines/command'
import { REQUEST_APPROVAL, REQUEST_INPUT } from '../tasks.ts'

export type CommandEvent = { readonly event_type: string; readonly payload: Readonly<Record<string, unknown>> }

type RebuiltEffect = {
  readonly effect_type: string
  readonly idempotency_key: string | null
  readonly declaration_order: number
  readonly compensates_effect_id: string | null
  readonly status: string
}

/** The names are those of the columns, so that it can be compared with the row. */
export type RebuiltCommand = {
  readonly status: string
  readonly attempt: number
  readonly plan_id: string | null
  readonly cancellation_requested: boolean
  readonly has_ended: boolean
  readonly effects: Readonly<Record<string, RebuiltEffect>>
}

/** An approval or a question is complete once it is written: its effect is planned and succeeded in one step. */
const askingTypes: readonly unknown[] = [REQUEST_APPROVAL, REQUEST_INPUT]

/** The states that set `completed_at`. */
const endStates: readonly string[] = commandMachine.stamps?.flatMap(({ on }) => on) ?? []

const initial: RebuiltCommand = {
  status: 'absent',
  attempt: 1,
  plan_id: null,
  cancellation_requested: false,
  has_ended: false,
  effects: {},
}

/** Takes the events in the order of their writing. Returns undefined if one of them does not follow from those before it. */
export function rebuildCommand(events: readonly CommandEvent[]): RebuiltCommand | undefined {
  const last = events.reduce<RebuiltCommand | undefined>(
    (before, event) => before && applyEvent(before, event),
    initial,
  )
  return last && { ...last, has_ended: endStates.includes(last.status) }
}

function applyEvent(before: RebuiltCommand, { event_type, payload }: CommandEvent): RebuiltCommand | undefined {
  const { target_type, target_id, from, to } = payload
  switch (event_type) {
    case 'command_created':
      return { ...before, status: 'created' }
    case 'status_changed':
      if (target_type === 'command') return from === before.status ? { ...before, status: String(to) } : undefined
      return target_type === 'effect' ? moveEffect(before, String(target_id), from, to) : before
    case 'effect_executed':
    case 'effect_failed':
      return moveEffect(before, String(target_id), from, to)
    case 'effect_planned':
      return { ...before, effects: { ...before.effects, [String(target_id)]: effectOf(payload) } }
    case 'plan_created':
      return { ...before, plan_id: String(payload['plan_id']) }
    case 'cancellation_requested':
      return { ...before, cancellation_requested: true }
    case 'retry_requested':
      return { ...before, attempt: Number(payload['attempt']) }
    default:
      return before
  }
}

function effectOf(payload: CommandEvent['payload']): RebuiltEffect {
  const { effect_type, idempotency_key, declaration_order, compensates_effect_id } = payload
  return {
    effect_type: String(effect_type),
    idempotency_key: typeof idempotency_key === 'string' ? idempotency_key : null,
    declaration_order: Number(declaration_order),
    compensates_effect_id: typeof compensates_effect_id === 'string' ? compensates_effect_id : null,
    status: askingTypes.includes(effect_type) ? 'succeeded' : 'planned',
  }
}

function moveEffect(before: RebuiltCommand, id: string, from: unknown, to: unknown): RebuiltCommand | undefined {
  const effect = before.effects[id]
  if (!effect || effect.status !== from) return undefined
  return { ...before, effects: { ...before.effects, [id]: { ...effect, status: String(to) } } }
}
