/** The port of planners: which agents a swarm starts. A planner returns data; every agent of its plan is a spawn, which policy decides. */
import { z } from 'zod'
import type { JsonObject } from '#kernel/json-value'
import { invocationTypes } from './swarm-run.ts'
import { isJudge, spawnRequest, type SwarmTerms } from './swarm-definition.ts'

/** An agent to start: a spawn, and what the join knows of it. */
export const plannedAgent = spawnRequest.omit({ parent_agent_run_id: true, swarm_run_id: true }).extend({
  /** `spawn` is the type of agents that another agent started. */
  invocation_type: z.enum(invocationTypes).exclude(['spawn']).default('delegate'),
  required: z.boolean().default(true),
  part: z.string().nullable().default(null),
})
export type PlannedAgent = z.output<typeof plannedAgent>
type SwarmPlan = readonly z.input<typeof plannedAgent>[]

export interface SwarmPlanner {
  createSwarmPlan(
    command: { readonly command_id: string; readonly input: JsonObject },
    context: { readonly swarm_run_id: string; readonly swarm: SwarmTerms },
  ): Promise<SwarmPlan>
}

/** Starts the agents of the definition, each with the input of the command as its context. */
export const templatePlanner: SwarmPlanner = {
  createSwarmPlan: async ({ input }, { swarm }) =>
    swarm.agents.map(
      ({ allowed_child_roles: _roles, approval_gates: _gates, runtime: _runtime, model: _model, ...agent }) => ({
        ...agent,
        context_scope: { ...input },
        invocation_type: !isJudge(swarm, agent) ? 'delegate' : agent.agent_role === 'evaluator' ? 'evaluate' : 'review',
        part: agent.part ?? agent.agent_name,
      }),
    ),
}

/** The coordinator plans by itself: nothing is started for it. */
export const coordinatorPlanner: SwarmPlanner = { createSwarmPlan: async () => [] }
