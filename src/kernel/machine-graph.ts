/** Treats a machine as a graph: reachable states, states that cannot end, and its SQL CHECK list. */
import {
  canMove,
  columnOfState,
  type Machine,
  type Move,
  nextStates,
  type RowFacts,
  statesOf,
  typeOf,
} from './machine.ts'

export type ReachOptions = {
  /** Whether moves after the end count (a retry is pending, a person may still decide). Default: true. */
  readonly afterEnd?: boolean
  /** The current facts of the row; they can make its state terminal (see `byFact`). */
  readonly facts?: RowFacts
}

/** Returns every state on a path from `from`, itself included. An unknown state reaches nothing. */
export function reachableFrom<S extends string>(
  machine: Machine<S>,
  from: string,
  { afterEnd = true, facts = {} }: ReachOptions = {},
): ReadonlySet<S> {
  const seen = new Set<S>(statesOf(machine).filter((state) => state === from))
  for (const state of seen) {
    const ended = typeOf(machine, state, state === from ? facts : {}) === 'terminal'
    for (const move of machine.moves) {
      if (move.from !== state || (move.afterEnd ? !afterEnd : ended)) continue
      seen.add(move.to)
    }
  }
  return seen
}

/** Returns whether a row in `from` can still reach `to`; a state reaches itself, unknown states reach nothing. */
export function canReach(machine: Machine, from: string, to: string, options: ReachOptions = {}): boolean {
  return reachableFrom(machine, from, options).has(to)
}

/** Returns the states that no row can ever be in. */
export function unreachable<S extends string>(machine: Machine<S>): readonly S[] {
  const reached = reachableFrom(machine, machine.initial)
  return statesOf(machine).filter((state) => !reached.has(state))
}

/** Terminal by name, or made terminal by a fact of the row. */
export function isEnd<S extends string>(machine: Machine<S>, state: S): boolean {
  const byFact = machine.byFact?.some((rule) => rule.state === state && rule.type === 'terminal') ?? false
  return byFact || machine.states[state] === 'terminal'
}

/** Returns the states from which a row can never end. */
export function endless<S extends string>(machine: Machine<S>): readonly S[] {
  return statesOf(machine).filter(
    (state) => ![...reachableFrom(machine, state)].some((reached) => isEnd(machine, reached)),
  )
}

/** Returns the moves that leave a terminal state without being declared as decisions after the end. */
export function exitsFromTerminal<S extends string, A extends string, E extends string>(
  machine: Machine<S, A, E>,
): readonly Move<S, A, E>[] {
  return machine.moves.filter((move) => machine.states[move.from] === 'terminal' && !move.afterEnd)
}

/** Returns the states as SQL literals, for `check (status in (…))`; the state stored as NULL has no literal. */
export function sqlCheckList(machine: Machine): string {
  return statesOf(machine)
    .map((state) => columnOfState(machine, state))
    .filter((value) => value !== null)
    .map((value) => `'${value.replaceAll("'", "''")}'`)
    .join(', ')
}

/**
 * Compares the table with a hand-written list over every ordered pair of states, and returns each pair on which they
 * differ. States that only one side has also differ.
 */
export function differingPairs(
  machine: Machine,
  legal: Readonly<Record<string, readonly string[]>>,
): readonly string[] {
  const written = new Set([...Object.keys(legal), ...Object.values(legal).flat()])
  const states = new Set([...statesOf(machine), ...written])
  const strange = [...states].filter((state) => !written.has(state) || !Object.hasOwn(machine.states, state))
  const pairs = [...states].flatMap((from) => [...states].map((to) => [from, to] as const))
  const differing = pairs.filter(([from, to]) => canMove(machine, from, to) !== (legal[from] ?? []).includes(to))
  return [...strange, ...differing.map(([from, to]) => `${from} → ${to}`)]
}

export type ReachFacts = {
  /** A retry of the failed parent has been decided and has not started yet. */
  readonly isRetryPending: boolean
}

/**
 * Decides whether a parent can still reach the status that a dependency requires. The table lets `failed` return to work, but
 * only by a decision: for a parent that is `failed` now and has no pending retry, the moves from `failed` to a state that waits
 * for work do not count. A parent that will fail counts as reachable until it has failed. Its own status counts as reached.
 */
export function isStatusReachable(machine: Machine, from: string, required: string, facts: ReachFacts): boolean {
  const isGivenUp = from === 'failed' && !facts.isRetryPending
  const reached = new Set([from])
  for (const state of reached) {
    for (const next of nextStates(machine, state)) {
      const isRetry = state === 'failed' && machine.states[next] === 'pending'
      if (!(isGivenUp && isRetry)) reached.add(next)
    }
  }
  return reached.has(required)
}
