/** Joins in which judges choose: `evaluator_selection`, `best_of_n`, `ranked_review`. Equal scores go to the lower id. */
import {
  askNext,
  type Candidate,
  candidatesOf,
  compareTexts,
  isAtWork,
  type JoinEvaluation,
  type JoinInput,
  type JoinStep,
  joined,
  othersThan,
  wait,
} from './join-input.ts'

export function joinEvaluatorSelection(input: JoinInput): JoinStep {
  return selectBest(input, candidatesOf(input.workers))
}

/** The number of candidates is fixed: with fewer of them the comparison is not the one that was asked for. */
export function joinBestOfN(input: JoinInput): JoinStep {
  if (input.workers.some(isAtWork)) return wait
  const { candidates: needed } = input.settings
  const candidates = candidatesOf(input.workers)
  if (candidates.length < needed) return joined('failed', `Candidates: ${candidates.length} of ${needed}.`)
  return selectBest(input, candidates.slice(0, needed))
}

function selectBest(input: JoinInput, candidates: readonly Candidate[]): JoinStep {
  const judged = waitForJudges(input, candidates)
  if (judged) return judged
  const passed = candidates.flatMap((candidate) => {
    const score = scoreOf(candidate, input.evaluations)
    return score !== null && score >= input.settings.threshold ? [{ candidate, score }] : []
  })
  return select(input, passed, 'No candidate passed the evaluation.')
}

/** The mean confidence of the judges; null if there is none, or if one of them does not pass it. */
function scoreOf({ artifact }: Candidate, evaluations: readonly JoinEvaluation[]): number | null {
  const own = evaluations.filter(({ subjectId }) => subjectId === artifact.artifactId)
  if (own.length === 0 || own.some(({ decision }) => decision !== 'pass')) return null
  return mean(own.map(({ confidence }) => confidence))
}

/** Sorted first: a sum of floats depends on its order. */
function mean(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other).reduce((sum, each) => sum + each, 0) / values.length
}

/** Each judge gives a candidate one point for every other candidate that it places below; the points of all judges are added. */
export function joinRankedReview(input: JoinInput): JoinStep {
  const candidates = candidatesOf(input.workers)
  const judged = waitForJudges(input, candidates)
  if (judged) return judged
  const judges = [...Map.groupBy(input.evaluations, ({ by }) => by).values()].map((own) =>
    candidates.map((candidate) => scoreOf(candidate, own) ?? -1),
  )
  const most = judges.length * Math.max(1, candidates.length - 1)
  const ranked = candidates.flatMap((candidate, at) => {
    const isPassed = judges.some((scores) => (scores[at] ?? -1) >= 0)
    const points = judges.reduce((sum, scores) => sum + scores.filter((score) => score < (scores[at] ?? -1)).length, 0)
    return isPassed ? [{ candidate, score: candidates.length === 1 ? 1 : points / most }] : []
  })
  return select(input, ranked, 'No reviewer ranked a candidate.')
}

function waitForJudges(input: JoinInput, candidates: readonly Candidate[]): JoinStep | null {
  if (input.workers.some(isAtWork)) return wait
  if (candidates.length === 0) return joined('failed', 'No agent succeeded with an artifact.')
  return input.haveJudgesEnded ? null : askNext('judges')
}

function select(
  { workers }: JoinInput,
  scored: readonly { readonly candidate: Candidate; readonly score: number }[],
  otherwise: string,
): JoinStep {
  const [best] = [...scored].sort(
    (one, other) =>
      other.score - one.score || compareTexts(one.candidate.artifact.artifactId, other.candidate.artifact.artifactId),
  )
  if (!best) return joined('failed', otherwise)
  return joined('succeeded', `Selected from ${scored.length} candidates.`, {
    selected: best.candidate.artifact.artifactId,
    confidence: best.score,
    losers: othersThan(workers, [best.candidate.agentRunId]),
  })
}
