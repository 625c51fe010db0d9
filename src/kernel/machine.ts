/**
 * A state machine is a table of data. From one table come: legality, the all-pairs test, the SQL CHECK list, the drawing
 * in docs/machines, the stamps a transition writes, and the API's "what can happen next".
 */
import { accept, type Decision, refuse } from './refusal.ts'

/** The four kinds of state that scheduling code may switch on; names are for people and for the database. */
export const stateTypes = ['pending', 'running', 'paused', 'terminal'] as const
export type StateType = (typeof stateTypes)[number]

/** How two writers of one row are kept apart: a version column, the old state itself, or a lease token. */
export type LockKind = 'version' | 'from-state' | 'lease'

/** Facts of a row beside its state, for the machines whose StateType depends on more than the name. */
export type RowFacts = Readonly<Record<string, unknown>>

export type Move<S extends string = string, A extends string = string, E extends string = string> = {
  readonly from: S
  readonly to: S
  /** Who may make the move. */
  readonly by: readonly A[]
  /** The events that are appended with the move, in this order. */
  readonly emits: readonly E[]
  /** When the move is allowed, in words; the deciding code is named there. */
  readonly when?: string
}

/** A column that is set to the time of the move on entering one of the states; `once` keeps an earlier value. */
export type Stamp<S extends string = string> = { readonly column: string; readonly on: readonly S[]; readonly once?: true }
/** A column that is emptied on entering one of the states. */
export type Clear<S extends string = string> = { readonly column: string; readonly on: readonly S[] }

export type Machine<S extends string = string, A extends string = string, E extends string = string> = {
  readonly name: string
  /** One sentence for the drawing. */
  readonly title: string
  readonly states: Readonly<Record<S, StateType>>
  readonly initial: S
  readonly moves: readonly Move<S, A, E>[]
  readonly lock: LockKind
  readonly stamps?: readonly Stamp<S>[]
  readonly clears?: readonly Clear<S>[]
  /** Only where the name is not enough (scheduler jobs, flow tasks). */
  readonly typeOf?: (state: S, facts: RowFacts) => StateType
}

/** Declares a machine and keeps its literal types. */
export function defineMachine<const S extends string, const A extends string, const E extends string>(
  machine: Machine<S, A, E>,
): Machine<S, A, E> {
  return machine
}

/** `from` a list of states to a list of states, all with the same actors and events. */
export function moves<const S extends string, const A extends string, const E extends string>(
  from: S | readonly S[],
  to: S | readonly S[],
  by: readonly A[],
  emits: readonly E[],
  when?: string,
): Move<S, A, E>[] {
  const sources = typeof from === 'string' ? [from] : from
  const targets = typeof to === 'string' ? [to] : to
  return sources.flatMap((source) =>
    targets.map((target) => ({ from: source, to: target, by, emits, ...(when === undefined ? {} : { when }) })),
  )
}

export function statesOf<S extends string>(machine: Machine<S>): readonly S[] {
  return Object.keys(machine.states) as S[]
}

export function isState<S extends string>(machine: Machine<S>, state: string): state is S {
  return Object.hasOwn(machine.states, state)
}

export function findMove<S extends string, A extends string, E extends string>(
  machine: Machine<S, A, E>,
  from: string,
  to: string,
): Move<S, A, E> | undefined {
  return machine.moves.find((move) => move.from === from && move.to === to)
}

/** A pure lookup: unknown states give false, and no state goes to itself. */
export function canMove(machine: Machine, from: string, to: string): boolean {
  return findMove(machine, from, to) !== undefined
}

export function nextStates<S extends string>(machine: Machine<S>, from: string): readonly S[] {
  return machine.moves.filter((move) => move.from === from).map((move) => move.to)
}

export function typeOf<S extends string>(machine: Machine<S>, state: S, facts: RowFacts = {}): StateType {
  return machine.typeOf?.(state, facts) ?? machine.states[state]
}

/** The whole judgement about one move: known states, a declared pair, an actor that may make it. */
export function decideMove<S extends string, A extends string, E extends string>(
  machine: Machine<S, A, E>,
  from: string,
  to: string,
  actor: string,
): Decision<Move<S, A, E>> {
  for (const state of [from, to]) {
    if (!isState(machine, state)) {
      return refuse('machine.state.unknown', `${machine.name} has no state ${state}`, {
        facts: { machine: machine.name, allowed: statesOf(machine) },
      })
    }
  }
  const move = findMove(machine, from, to)
  if (!move) {
    return refuse('machine.move.illegal', `${machine.name} cannot go from ${from} to ${to}`, {
      facts: { machine: machine.name, from, to, next: nextStates(machine, from) },
    })
  }
  if (!move.by.some((allowed) => allowed === actor)) {
    return refuse('machine.actor.not_allowed', `${actor} may not move ${machine.name} from ${from} to ${to}`, {
      facts: { machine: machine.name, from, to, by: move.by },
    })
  }
  return accept(move)
}
