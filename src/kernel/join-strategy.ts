/** The ways in which a swarm makes one result of many: the words of its row, and of the questions about it. */
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
