/** The five ways in which a swarm starts its agents, and the joins that each of them can serve. */
import type { joinStrategies } from '../machines/agent.ts'

export type JoinStrategyName = (typeof joinStrategies)[number]

export const swarmModes = ['sequential', 'parallel', 'competitive', 'review_driven', 'hierarchical'] as const
export type SwarmMode = (typeof swarmModes)[number]

/**
 * A join that compares answers to the same goal needs agents that get the same goal. A join that puts parts together needs agents with
 * different parts.
 */
export const joinsOfMode: Readonly<Record<SwarmMode, readonly JoinStrategyName[]>> = {
  sequential: ['all_success', 'first_success', 'quorum', 'coordinator_synthesis', 'human_review', 'map_reduce'],
  parallel: [
    'all_success',
    'first_success',
    'quorum',
    'coordinator_synthesis',
    'human_review',
    'map_reduce',
    'consensus',
  ],
  competitive: [
    'first_success',
    'quorum',
    'evaluator_selection',
    'best_of_n',
    'human_review',
    'consensus',
    'ranked_review',
  ],
  review_driven: ['all_success', 'coordinator_synthesis', 'evaluator_selection', 'human_review', 'ranked_review'],
  hierarchical: ['all_success', 'quorum', 'coordinator_synthesis', 'human_review', 'map_reduce'],
}
