/** Decides whether a run may start a child. Collects every reason against it: an agent that gets one at a time asks again and again. */
import type { Money } from '../money.ts'
import type { Authority } from './authority.ts'
import { findWider } from './scope.ts'

export type SpawnRequest = Pick<
  Authority,
  'allowed_tools' | 'allowed_connectors' | 'memory_scope' | 'context_scope' | 'max_steps'
> & {
  readonly agent_role: string
  /** Carved out of what its parent has left. Null: it shares that. */
  readonly max_cost: Money | null
  /** Null: that of its parent. */
  readonly deadline_at: Date | null
}

export type SpawnParent = Authority & {
  /** 0 for a coordinator. */
  readonly spawn_depth: number
  /** Empty: every role is allowed. */
  readonly allowed_child_roles: readonly string[]
  /** What its account has left. Null: nothing limits it. */
  readonly cost_left: Money | null
  /** Null: it has none. */
  readonly deadline_at: Date | null
}

/** Counted under the lock of the row of the swarm. */
export type SpawnCounts = {
  readonly maxDepth: number
  readonly maxAgents: number
  /** Every run of the swarm that was ever started, with its coordinator. */
  readonly agentCount: number
  readonly maxTotalSteps: number
  /** The step limits of living runs and the steps of ended ones. */
  readonly stepsTaken: number
}

/** The limits of a swarm that a spawn can reach, and the reason that names each. */
export const spawnLimits = {
  max_depth: 'Spawn depth exceeded.',
  max_agents: 'Swarm agent limit exceeded.',
  max_total_steps: 'Swarm step limit exceeded.',
} as const
export type SpawnDecision = { readonly decision: 'allowed' | 'denied'; readonly reasons: readonly string[] }

export function decideSpawn(request: SpawnRequest, parent: SpawnParent, swarm: SpawnCounts): SpawnDecision {
  const { agent_role, allowed_tools, allowed_connectors, max_steps, max_cost, deadline_at } = request
  const roles = parent.allowed_child_roles
  const tools = new Set([...parent.allowed_tools, ...parent.delegable_tools])
  for (const forbidden of parent.forbidden_tools) tools.delete(forbidden)
  const checks: readonly (readonly [isBroken: boolean, text: string])[] = [
    [parent.spawn_depth + 1 > swarm.maxDepth, spawnLimits.max_depth],
    [swarm.agentCount >= swarm.maxAgents, spawnLimits.max_agents],
    [roles.length > 0 && !roles.includes(agent_role), `Role not allowed: ${agent_role}`],
    [!allowed_tools.every((tool) => tools.has(tool)), 'Child requested tools outside parent scope.'],
    [
      !allowed_connectors.every((name) => parent.allowed_connectors.includes(name)),
      'Child requested connectors outside parent scope.',
    ],
    [findWider(parent.memory_scope, request.memory_scope, '') !== null, 'Child requested memory outside parent scope.'],
    [
      findWider(parent.context_scope, request.context_scope, '') !== null,
      'Child requested context outside parent scope.',
    ],
    [!(max_steps <= parent.max_steps), 'Child requested more steps than its parent.'],
    [
      max_cost !== null && parent.cost_left !== null && !(max_cost <= parent.cost_left),
      'Child requested more cost than its parent has left.',
    ],
    [
      deadline_at !== null && parent.deadline_at !== null && !(deadline_at <= parent.deadline_at),
      'Child requested a later deadline than its parent.',
    ],
    [!(swarm.stepsTaken + max_steps <= swarm.maxTotalSteps), spawnLimits.max_total_steps],
  ]
  const reasons = checks.flatMap(([isBroken, text]) => (isBroken ? [text] : []))
  return { decision: reasons.length === 0 ? 'allowed' : 'denied', reasons }
}
