/** Decides whether the moves of a machine can still lead from one status to another; if not, a dependency is hopeless. */
import { type Machine, nextStates } from '../machine.ts'

export type ReachFacts = {
  /** A retry of the failed parent has been decided and has not started yet. */
  readonly isRetryPending: boolean
}

/**
 * The table lets `failed` return to work, but only by a decision: for a parent that is `failed` now and has no
 * pending retry, the moves from `failed` to a state that waits for work do not count. A parent on its way to `failed` is
 * not given up before it is there. Its own status counts as reached.
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
