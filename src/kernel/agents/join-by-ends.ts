/** Joins that look at how the workers ended and which results are equal: `all_success`, `first_success`, `quorum`, `consensus`. */
import {
  candidatesOf,
  compareTexts,
  countSuccesses,
  isAtWork,
  type JoinInput,
  type JoinStep,
  joined,
  othersThan,
  wait,
} from './join-input.ts'

export function joinAllSuccess({ workers }: JoinInput): JoinStep {
  if (workers.some(isAtWork)) return wait
  const lost = workers.filter(({ status }) => status !== 'succeeded')
  const confidence = workers.length === 0 ? 0 : countSuccesses(workers) / workers.length
  const missing = lost.filter(({ isRequired }) => isRequired).length
  if (workers.length === 0 || missing > 0)
    return joined('failed', `Required agents without success: ${missing}.`, { confidence })
  const selected = candidatesOf(workers).at(-1)?.artifact.artifactId ?? null
  if (lost.length > 0)
    return joined('partially_succeeded', `Optional agents without success: ${lost.length}.`, { selected, confidence })
  return joined('succeeded', 'All required agents completed.', { selected, confidence })
}

/** Of two that ended in the same millisecond the one with the lower id wins. */
export function joinFirstSuccess({ workers }: JoinInput): JoinStep {
  const [first] = [...candidatesOf(workers)].sort(
    (one, other) => compareTexts(one.endedAt, other.endedAt) || compareTexts(one.agentRunId, other.agentRunId),
  )
  if (first)
    return joined('succeeded', 'The first agent succeeded.', {
      selected: first.artifact.artifactId,
      confidence: 1,
      losers: othersThan(workers, [first.agentRunId]),
    })
  return workers.some(isAtWork) ? wait : joined('failed', 'No agent succeeded with an artifact.')
}

export function joinQuorum({ workers, settings }: JoinInput): JoinStep {
  const needed = settings.needed ?? Math.floor(workers.length / 2) + 1
  const successes = countSuccesses(workers)
  if (successes >= needed) {
    const kept = workers.filter(({ status }) => status === 'succeeded').map(({ agentRunId }) => agentRunId)
    return joined('succeeded', `Agents that succeeded: ${successes} of ${workers.length}.`, {
      selected: candidatesOf(workers)[0]?.artifact.artifactId ?? null,
      confidence: successes / workers.length,
      losers: othersThan(workers, kept),
    })
  }
  if (successes + workers.filter(isAtWork).length >= needed) return wait
  return joined('failed', `A quorum of ${needed} agents cannot be reached.`, { losers: othersThan(workers, []) })
}

/** Results are equal when their content is. Waits for all, so that the answer does not depend on who ends first. */
export function joinConsensus({ workers, settings }: JoinInput): JoinStep {
  if (workers.some(isAtWork)) return wait
  const groups = Map.groupBy(candidatesOf(workers), ({ artifact }) => artifact.contentHash)
  const [largest] = [...groups].sort(
    ([hash, one], [otherHash, other]) => other.length - one.length || compareTexts(hash, otherHash),
  )
  if (!largest) return joined('failed', 'No agent succeeded with an artifact.')
  const [, agreed] = largest
  const confidence = agreed.length / workers.length
  const summary = `Agents with the same result: ${agreed.length} of ${workers.length}.`
  if (confidence < settings.share) return joined('failed', summary, { confidence })
  const kept = agreed.map(({ agentRunId }) => agentRunId)
  const selected = agreed.map(({ artifact }) => artifact.artifactId).sort()[0] ?? null
  return joined('succeeded', summary, { selected, confidence, losers: othersThan(workers, kept) })
}
