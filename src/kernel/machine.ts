/**
 * A state machine is a table of data. From one table come: legality, the all-pairs test, the SQL CHECK list, the drawing
 * in docs/machines, the timestamps a transition writes, and the API's list of next states.
 */
import { accept, type Decision, quote, refuse } from './refusal.ts'

/** The four kinds of state that scheduling code may switch on; names are for people and for the database. */
export const stateTypes = ['pending', 'running', 'paused', 'terminal'] as const
export type StateType = (typeof stateTypes)[number]

/** How concurrent writers of one row are separated: a version column, the old state itself, or a lease token. */
export type LockKind = 'version' | 'from-state' | 'lease'

/** Columns of a row other than its state, for machines whose StateType depends on more than the name. */
export type RowFacts = Readonly<Record<string, unknown>>

export type Move<S extends string = string, A extends string = string, E extends string = string> = {
  readonly from: S
  readonly to: S
  /** The actors that may make the move. */
  readonly by: readonly A[]
  /** The events appended with the move, in this order. */
  readonly emits: readonly E[]
  /** When the move is allowed, in words; the deciding code is named there. */
  readonly when?: string
  /** The move leaves a terminal state: a decision about a row that has ended, never an automatic step. */
  readonly afterEnd?: true
}

/** A column that is set to the time of the move on entering one of the states; `once` keeps an earlier value. */
export type Stamp<S extends string = string> = {
  readonly column: string
  readonly on: readonly S[]
  readonly once?: true
}
/** A column that is cleared on entering one of the states. */
export type Clear<S extends string = string> = { readonly column: string; readonly on: readonly S[] }

/**
 * In this state a column decides the StateType. A fact that was not read (undefined) decides nothing, so a row never counts
 * as finished because a query left out a column.
 */
export type TypeByFact<S extends string = string> = {
  readonly state: S
  readonly column: string
  readonly is: 'set' | 'empty' | 'true' | 'false'
  readonly type: StateType
}

export type Machine<S extends string = string, A extends string = string, E extends string = string> = {
  readonly name: string
  /** One sentence for the drawing. */
  readonly title: string
  readonly states: Readonly<Record<S, StateType>>
  readonly initial: S
  /** The actors that may create a row in `initial`, and the events appended with it. */
  readonly creation?: { readonly by: readonly A[]; readonly emits: readonly E[] }
  readonly moves: readonly Move<S, A, E>[]
  readonly lock: LockKind
  readonly stamps?: readonly Stamp<S>[]
  readonly clears?: readonly Clear<S>[]
  /** Only where the name is not enough (commands, scheduler jobs, flow tasks); the first matching rule decides. */
  readonly byFact?: readonly TypeByFact<S>[]
  /** The state that its column stores as NULL (scheduler job runs). */
  readonly nullState?: S
}

/** Declares a machine and keeps its literal types. */
export function defineMachine<const S extends string, const A extends string, const E extends string>(
  machine: Machine<S, A, E>,
): Machine<S, A, E> {
  return machine
}

/** Declares moves from a list of states to a list of states, all with the same actors and events. */
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

/** Marks moves that leave a terminal state by decision. */
export function afterEnd<S extends string, A extends string, E extends string>(
  list: readonly Move<S, A, E>[],
): Move<S, A, E>[] {
  return list.map((move) => ({ ...move, afterEnd: true }))
}

export function statesOf<S extends string>(machine: Machine<S>): readonly S[] {
  return Object.keys(machine.states) as S[]
}

export function isState<S extends string>(machine: Machine<S>, state: string): state is S {
  return Object.hasOwn(machine.states, state)
}

/** Returns the state of a column value: NULL is the `nullState` if there is one, an unknown word is not a state. */
export function stateOfColumn<S extends string>(machine: Machine<S>, value: string | null): S | undefined {
  if (value === null) return machine.nullState
  return isState(machine, value) && value !== machine.nullState ? value : undefined
}

/** Returns the column value of a state. */
export function columnOfState<S extends string>(machine: Machine<S>, state: S): S | null {
  return state === machine.nullState ? null : state
}

export function findMove<S extends string, A extends string, E extends string>(
  machine: Machine<S, A, E>,
  from: string,
  to: string,
): Move<S, A, E> | undefined {
  return machine.moves.find((move) => move.from === from && move.to === to)
}

/** A pure lookup: unknown states give false, and no state moves to itself. */
export function canMove(machine: Machine, from: string, to: string): boolean {
  return findMove(machine, from, to) !== undefined
}

export function nextStates<S extends string>(machine: Machine<S>, from: string): readonly S[] {
  return machine.moves.filter((move) => move.from === from).map((move) => move.to)
}

function holds(is: TypeByFact['is'], value: unknown): boolean {
  switch (is) {
    case 'set':
      return value !== null && value !== undefined
    case 'empty':
      return value === null
    case 'true':
      return value === true
    case 'false':
      return value === false
  }
}

/** Returns the StateType of a row: by its facts where the machine names some, else by the name of its state. */
export function typeOf<S extends string>(machine: Machine<S>, state: S, facts: RowFacts = {}): StateType {
  const rule = machine.byFact?.find((each) => each.state === state && holds(each.is, facts[each.column]))
  return rule?.type ?? machine.states[state]
}

/** Decides one move: known states, a declared pair, a row that has not ended, an actor that may make it. */
export function decideMove<S extends string, A extends string, E extends string>(
  machine: Machine<S, A, E>,
  from: string,
  to: string,
  actor: string,
  facts: RowFacts = {},
): Decision<Move<S, A, E>> {
  for (const state of [from, to]) {
    if (!isState(machine, state)) {
      return refuse('machine.state.unknown', `The ${machine.name} has no state ${quote(state)}.`, {
        facts: { machine: machine.name, allowed: statesOf(machine) },
      })
    }
  }
  const move = findMove(machine, from, to)
  if (!move) {
    return refuse('machine.move.illegal', `The ${machine.name} cannot move from ${from} to ${to}.`, {
      facts: { machine: machine.name, from, to, next: nextStates(machine, from) },
    })
  }
  if (typeOf(machine, move.from, facts) === 'terminal' && !move.afterEnd) {
    return refuse('machine.move.illegal', `This ${machine.name} has ended in ${from} and cannot move to ${to}.`, {
      facts: { machine: machine.name, from, to, next: [] },
    })
  }
  if (!move.by.some((allowed) => allowed === actor)) {
    return refuse(
      'machine.actor.not_allowed',
      `The actor ${actor} may not move the ${machine.name} from ${from} to ${to}.`,
      {
        facts: { machine: machine.name, from, to, by: move.by },
      },
    )
  }
  return accept(move)
}
