/** Joins the results of many agents into one. Each strategy is a pure function of artifacts and evaluations. */
import type { JoinStrategyName } from './swarm-mode.ts'
import { joinCoordinatorSynthesis, joinHumanReview, joinMapReduce } from './join-by-hand.ts'
import { joinAllSuccess, joinConsensus, joinFirstSuccess, joinQuorum } from './join-by-ends.ts'
import { joinBestOfN, joinEvaluatorSelection, joinRankedReview } from './join-by-scores.ts'
import type { JoinInput, JoinStep } from './join-input.ts'

const strategies: Readonly<Record<JoinStrategyName, (input: JoinInput) => JoinStep>> = {
  all_success: joinAllSuccess,
  first_success: joinFirstSuccess,
  quorum: joinQuorum,
  coordinator_synthesis: joinCoordinatorSynthesis,
  evaluator_selection: joinEvaluatorSelection,
  human_review: joinHumanReview,
  best_of_n: joinBestOfN,
  map_reduce: joinMapReduce,
  consensus: joinConsensus,
  ranked_review: joinRankedReview,
}

/** Returns what the swarm waits for, whom it asks next, or its result. */
export function joinSwarm(strategy: JoinStrategyName, input: JoinInput): JoinStep {
  return strategies[strategy](input)
}
