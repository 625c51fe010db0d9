/**
 * Tells from the events of a command alone where it must stand, and where its effects must. Pure: a row that says something
 * else was changed without a word, or an event was lost.
 */
import { commandMachine } from '#kernel/machines/command'
import { REQUEST_APPROVAL, REQUEST_INPUT } from '../asks.ts'

export type ToldEvent = { readonly event_type: string; readonly payload: Readonly<Record<string, unknown>> }

export type RebuiltEffect = {
  readonly effect_type: string
  readonly idempotency_key: string | null
  readonly declaration_order: number
  readonly compensates_effect_id: string | null
  readonly status: string
}

export type RebuiltCase = {
  readonly status: string
  readonly attempt: number
  readonly plan_id: string | null
  readonly cancellation_requested: boolean
  readonly has_ended: boolean
  readonly effects: Readonly<Record<string, RebuiltEffect>>
  /** Why the events do not make one story; null: they do. */
  readonly torn: string | null
}

/** Asking is done by being written down: there is no time between the plan of it and its end. */
const askingTypes: readonly unknown[] = [REQUEST_APPROVAL, REQUEST_INPUT]

/** The states that set `completed_at`. */
const endStates: readonly string[] = commandMachine.stamps?.flatMap(({ on }) => on) ?? []

const unborn: RebuiltCase = {
  status: 'absent',
  attempt: 1,
  plan_id: null,
  cancellation_requested: false,
  has_ended: false,
  effects: {},
  torn: null,
}

/** In the order in which they were written. */
export function rebuildCase(events: readonly ToldEvent[]): RebuiltCase {
  const last = events.reduce(tell, unborn)
  return { ...last, has_ended: endStates.includes(last.status) }
}

function tell(before: RebuiltCase, { event_type, payload }: ToldEvent): RebuiltCase {
  const { target_type, target_id, from, to } = payload
  switch (event_type) {
    case 'command_created':
      return { ...before, status: 'created' }
    case 'status_changed':
      if (target_type === 'command') return withStatus(before, from, to)
      return target_type === 'effect' ? withEffect(before, String(target_id), from, to) : before
    case 'effect_executed':
    case 'effect_failed':
      return withEffect(before, String(target_id), from, to)
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

function effectOf(payload: ToldEvent['payload']): RebuiltEffect {
  const { effect_type, idempotency_key, declaration_order, compensates_effect_id } = payload
  return {
    effect_type: String(effect_type),
    idempotency_key: typeof idempotency_key === 'string' ? idempotency_key : null,
    declaration_order: Number(declaration_order),
    compensates_effect_id: typeof compensates_effect_id === 'string' ? compensates_effect_id : null,
    status: askingTypes.includes(effect_type) ? 'succeeded' : 'planned',
  }
}

function withStatus(before: RebuiltCase, from: unknown, to: unknown): RebuiltCase {
  const torn = tornAt('the command', before.status, from)
  return { ...before, status: String(to), torn: before.torn ?? torn }
}

function withEffect(before: RebuiltCase, id: string, from: unknown, to: unknown): RebuiltCase {
  const effect = before.effects[id]
  if (!effect) return { ...before, torn: before.torn ?? `the effect ${id} moves before it was planned` }
  const torn = tornAt(`the effect ${id}`, effect.status, from)
  const effects = { ...before.effects, [id]: { ...effect, status: String(to) } }
  return { ...before, effects, torn: before.torn ?? torn }
}

function tornAt(what: string, status: string, from: unknown): string | null {
  return from === status ? null : `${what} moves from ${String(from)} where it is ${status}`
}
