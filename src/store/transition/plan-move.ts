/** Turns a decided move into the values of its statement: columns, stamps and the declared events. Pure. */
import { KernelFault } from '#kernel/errors'
import type { NewId } from '#kernel/clock'
import { type Move, type StateType, typeOf } from '#kernel/machine'
import type { EventDraft } from '../events.ts'
import { checkEvent } from '../events.ts'
import type { AnyRow, StoredMachine } from './stored-machine.ts'

type Payload = Readonly<Record<string, unknown>>

export type MoveContext<A extends string = string, E extends string = string> = {
  /** The actor, e.g. `user:0197…`. */
  readonly actor: string
  readonly actorKind: A
  readonly traceId: string
  readonly at: Date
  readonly newId: NewId
  /** Beside `from`, `to`, `target_type` and `target_id`, which every event of a move carries. */
  readonly payload?: Payload | ((type: E) => Payload)
  readonly set?: AnyRow
  /** Amounts that the same statement adds to columns. */
  readonly add?: Readonly<Record<string, number | string>>
  readonly guards?: readonly string[]
  /** The token that must still be on the row, by column. */
  readonly fence?: AnyRow
}

/** One move of one row, ready to be written. */
export type PlannedMove = {
  readonly id: unknown
  readonly tenant: unknown
  readonly from: string
  readonly to: string
  readonly stateType: StateType
  readonly at: Date
  readonly lock: readonly unknown[]
  readonly set: AnyRow
  readonly add: Readonly<Record<string, number | string>>
  readonly guards: readonly string[]
  readonly fence: AnyRow
  readonly events: readonly EventDraft[]
}

function columnOf(row: AnyRow, column: string, machine: string): unknown {
  const value = row[column]
  if (value === undefined) throw new KernelFault('store.row.incomplete', `a ${machine} cannot move without ${column}`)
  return value
}

export function planMove<S extends string, A extends string, E extends string, Row>(
  stored: StoredMachine<S, A, E, Row>,
  row: AnyRow,
  move: Move<S, A, E>,
  context: MoveContext<A, E>,
): PlannedMove {
  const { machine } = stored
  const column = (name: string) => columnOf(row, name, machine.name)
  const { set = {}, add = {}, guards = [], fence = {} } = context
  const strange = [...Object.keys(set), ...Object.keys(add)].find((name) => !Object.hasOwn(stored.settable ?? {}, name))
  if (strange !== undefined)
    throw new KernelFault('store.column.not_settable', `${machine.name}.${strange} is not settable`)
  const guard = guards.find((name) => !Object.hasOwn(stored.guards ?? {}, name))
  if (guard !== undefined) throw new KernelFault('store.guard.unknown', `${machine.name} has no guard ${guard}`)
  const other = Object.keys(fence).find((name) => !Object.hasOwn(stored.fences ?? {}, name))
  if (other !== undefined) throw new KernelFault('store.fence.unknown', `${machine.name} has no fence ${other}`)
  const id = column(stored.id)
  return {
    id,
    tenant: stored.tenant === undefined ? null : column(stored.tenant),
    from: move.from,
    to: move.to,
    stateType: typeOf(machine, move.to, { ...row, ...set }),
    at: context.at,
    lock: Object.keys(stored.lock ?? {}).map(column),
    set,
    add,
    guards,
    fence,
    events: move.emits.map((type) => draftEvent(stored, type, { from: move.from, to: move.to, id }, context)),
  }
}

export function draftEvent<S extends string, A extends string, E extends string, Row>(
  stored: StoredMachine<S, A, E, Row>,
  type: E,
  about: { readonly from: string; readonly to: string; readonly id: unknown },
  { actor, actorKind, traceId, at, newId, payload }: MoveContext<A, E>,
): EventDraft<E> {
  const { log } = stored
  if (!log) throw new KernelFault('store.machine.binding', `${stored.machine.name} has no event log`)
  const own = typeof payload === 'function' ? payload(type) : payload
  const event: EventDraft<E> = {
    eventId: newId(),
    type,
    payload: { ...own, from: about.from, to: about.to, target_type: log.target, target_id: about.id },
    actor,
    actorKind,
    traceId,
    at,
  }
  checkEvent(log.log, event)
  return event
}
