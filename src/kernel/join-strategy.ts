/** The strategies by which a swarm joins many results into one, as stored on its row. */
export const joinStrategies = [
  'all_success',
  'first_success',
  'quorum',
  'coordinator_synthesis',
  'evaluator_selection',
  'human_review',
  'best_of_n',
  'map_reduce',
  'consensus',
  'ranked_review',
] as const
