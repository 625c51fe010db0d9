/** Joins that end with something new: an artifact made from those of the workers, or the answer of a person. */
import {
  askNext,
  candidatesOf,
  countSuccesses,
  isAtWork,
  type JoinInput,
  type JoinStep,
  type JoinWorker,
  joined,
  wait,
} from './join-input.ts'

/** Some output exists although an agent failed: the coordinator decides what can be made of it. */
export function joinCoordinatorSynthesis(input: JoinInput): JoinStep {
  if (input.workers.some(isAtWork)) return wait
  if (candidatesOf(input.workers).length === 0) return joined('failed', 'No agent succeeded with an artifact.')
  return withSynthesis(input, 'coordinator')
}

/** The parts are disjoint, and a missing part cannot be put together. */
export function joinMapReduce(input: JoinInput): JoinStep {
  const { workers, settings } = input
  if (workers.some(isAtWork)) return wait
  const parts = workers.map(({ part }) => part)
  if (parts.includes(null) || new Set(parts).size < parts.length)
    return joined('failed', 'Each agent needs a part of its own.')
  const done = new Set(candidatesOf(workers).map(({ agentRunId }) => agentRunId))
  const missing = workers.filter(({ agentRunId, isRequired }) => isRequired && !done.has(agentRunId)).length
  if (missing > 0 || done.size === 0) return joined('failed', `Parts without a result: ${workers.length - done.size}.`)
  return withSynthesis(input, settings.reduce === 'coordinator' ? 'coordinator' : 'reducer')
}

function withSynthesis({ workers, synthesis }: JoinInput, whom: 'coordinator' | 'reducer'): JoinStep {
  if (synthesis === null) return askNext(whom)
  if (synthesis === 'none') return joined('failed', 'The coordinator wrote no artifact.')
  return joined(isWhole(workers) ? 'succeeded' : 'partially_succeeded', summaryOf(workers), {
    selected: synthesis.artifactId,
    confidence: countSuccesses(workers) / workers.length,
  })
}

export function joinHumanReview({ workers, review }: JoinInput): JoinStep {
  if (workers.some(isAtWork)) return wait
  const [candidate] = candidatesOf(workers)
  if (!candidate) return joined('failed', 'No agent succeeded with an artifact.')
  if (review === null) return askNext('person')
  const step =
    review === 'approved'
      ? joined(isWhole(workers) ? 'succeeded' : 'partially_succeeded', `A person approved. ${summaryOf(workers)}`, {
          selected: candidate.artifact.artifactId,
          confidence: 1,
        })
      : joined('failed', 'A person rejected the results.', { losers: workers.map(({ agentRunId }) => agentRunId) })
  return step.kind === 'joined' ? { ...step, result: { ...step.result, requires_human_review: true } } : step
}

function isWhole(workers: readonly JoinWorker[]): boolean {
  return countSuccesses(workers) === workers.length
}

function summaryOf(workers: readonly JoinWorker[]): string {
  return `Agents that succeeded: ${countSuccesses(workers)} of ${workers.length}.`
}
