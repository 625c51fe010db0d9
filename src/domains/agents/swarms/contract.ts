/** The API shapes of swarms: a swarm, and the tree of its agents with the proof of each authority. */
import { z } from 'zod'
import { idView, orNull, pageView, timeView } from '#contract'
import { showActor } from '#domains/approvals'
import { swarmModes } from '#kernel/agents/swarm-mode'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { joinStrategies, swarmRunMachine } from '#kernel/machines/agent'
import { agentRunView, toAgentRunView } from '../contract.ts'
import type { StoredSwarmRun, SwarmAgentRun } from './swarm-run.ts'
import { authorityFaults, type AuthorityProof, type ChainLink } from './verify-authority.ts'

const states = <T extends string>(machine: { readonly states: Readonly<Record<T, unknown>> }) =>
  z.enum(Object.keys(machine.states) as [T, ...T[]])

const joinView = z
  .object({
    decision: z.enum(['succeeded', 'partially_succeeded', 'failed']),
    summary: z.string().meta({ example: 'All required agents completed.' }),
    selected_artifact_id: idView('artifact').nullable(),
    confidence: z.number().meta({ example: 0.88 }),
    requires_human_review: z.boolean(),
    losers: z.array(idView('agent_run')).meta({ description: 'Cancelled and undone.' }),
  })
  .meta({ id: 'SwarmJoin', description: 'How the results of the agents became one.' })

export const swarmView = z
  .object({
    swarm_run_id: idView('swarm_run'),
    command_id: idView('command'),
    name: z.string().meta({ example: 'revenue_report_swarm' }),
    status: states(swarmRunMachine),
    end_reason: z
      .string()
      .nullable()
      .meta({ example: 'joined', description: 'The limit that was reached, or why it ended.' }),
    objective: z.string().meta({ example: 'Generate and review a monthly revenue report.' }),
    execution_mode: z.enum(swarmModes),
    join_strategy: z.enum(joinStrategies),
    limits: z.object({
      max_agents: z.int(),
      max_depth: z.int(),
      max_total_steps: z.int(),
      max_cost_units: z.string().nullable(),
      max_parallel: z.int().nullable(),
    }),
    join: joinView.nullable(),
    created_at: timeView(),
    deadline_at: timeView().nullable(),
    completed_at: timeView().nullable(),
  })
  .meta({ id: 'Swarm', description: 'Several agents on one objective, joined into one outcome.' })

const memberView = agentRunView
  .extend({
    invocation_type: z.string().nullable().meta({ example: 'delegate', description: 'Null for the coordinator.' }),
    delegated_goal: z.string().nullable().meta({ description: 'Null for the coordinator.' }),
    authority_hash: z.string().nullable(),
    is_proven: z.boolean().meta({ description: 'Its authority has this hash, and its parent contains it.' }),
  })
  .meta({ id: 'SwarmMember', description: 'An agent run of a swarm, and what was asked of it.' })

export const swarmDetailView = swarmView
  .extend({
    agents: z.array(memberView).meta({ description: 'The coordinator first, then in the order of their start.' }),
  })
  .meta({
    id: 'SwarmDetail',
    description: 'A swarm with its agents, the proofs of their authority, and the losers of its join.',
  })
export const swarmPageView = pageView(swarmView, 'SwarmPage')

export function toSwarmView(swarm: StoredSwarmRun): z.infer<typeof swarmView> {
  const { joined } = swarm
  return {
    swarm_run_id: encodeId('swarm_run', swarm.swarm_run_id),
    command_id: encodeId('command', swarm.command_id),
    name: swarm.definition.name,
    status: swarm.status,
    end_reason: swarm.end_reason,
    objective: swarm.objective,
    execution_mode: swarm.execution_mode,
    join_strategy: swarm.join_strategy,
    limits: {
      max_agents: swarm.max_agents,
      max_depth: swarm.max_depth,
      max_total_steps: swarm.max_total_steps,
      max_cost_units: orNull(swarm.max_cost_units, String),
      max_parallel: swarm.max_parallel,
    },
    join: joined && {
      ...joined,
      selected_artifact_id: orNull(joined.selected_artifact_id, (id) => encodeId('artifact', id)),
      losers: joined.losers.map((id) => encodeId('agent_run', id)),
    },
    created_at: formatInstant(swarm.created_at),
    deadline_at: orNull(swarm.deadline_at, formatInstant),
    completed_at: orNull(swarm.completed_at, formatInstant),
  }
}

export type SwarmTree = {
  readonly swarm: StoredSwarmRun
  readonly runs: readonly SwarmAgentRun[]
  readonly proofs: readonly AuthorityProof[]
}

export function toSwarmDetailView({ swarm, runs, proofs }: SwarmTree): z.input<typeof swarmDetailView> {
  return {
    ...toSwarmView(swarm),
    agents: runs.map((run) => ({
      ...toAgentRunView(run),
      invocation_type: run.invocation_type,
      delegated_goal: run.invocation_type && run.goal,
      authority_hash: run.authority_hash,
      is_proven: proofs.find(({ agentRunId }) => agentRunId === run.agent_run_id)?.fault === null,
    })),
  }
}

const linkView = z
  .object({
    agent_run_id: idView('agent_run'),
    agent_name: z.string().meta({ example: 'revenue_analyst' }),
    agent_role: z.string().meta({ example: 'analyst' }),
    fault: z
      .enum(authorityFaults)
      .nullable()
      .meta({ example: null, description: 'Why the link is not proven. Null: it is.' }),
    authority_hash: z.string().nullable(),
    parent_authority_hash: z.string().nullable().meta({ description: 'Null: a person is above it.' }),
    allowed_tools: z.array(z.string()).meta({ example: ['run_sql', 'create_artifact'] }),
    removed_tools: z.array(z.string()).meta({ description: 'Tools of the run above that it may not use.' }),
    delegated_tools: z.array(z.string()).meta({ description: 'Tools that the run above may pass on and not use.' }),
    allowed_connectors: z.array(z.string()).meta({ example: ['postgres'] }),
    removed_connectors: z.array(z.string()).meta({ description: 'Connectors of the run above that it may not use.' }),
    max_steps: z.int().meta({ example: 15 }),
  })
  .meta({ id: 'AuthorityLink' })

export const authorityView = z
  .object({
    agent_run_id: idView('agent_run'),
    is_proven: z.boolean().meta({ description: 'No link has a fault.' }),
    requested_by: z.string().meta({ example: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163', description: 'The person.' }),
    links: z.array(linkView).meta({ description: 'From the person down to the run.' }),
  })
  .meta({
    id: 'RunAuthority',
    description: 'The chain of authority of a run up to a person, with the proof of each link.',
  })

export function toAuthorityView(
  agentRunId: string,
  { requestedBy, links }: { readonly requestedBy: string; readonly links: readonly ChainLink[] },
): z.infer<typeof authorityView> {
  const missing = (all: readonly string[] = [], some: readonly string[]) => all.filter((name) => !some.includes(name))
  return {
    agent_run_id: encodeId('agent_run', agentRunId),
    is_proven: links.every(({ fault }) => fault === null),
    requested_by: showActor(requestedBy),
    links: links.map(({ run, fault }, at) => {
      const above = links[at - 1]?.run
      return {
        agent_run_id: encodeId('agent_run', run.agent_run_id),
        agent_name: run.agent_name,
        agent_role: run.agent_role,
        fault,
        authority_hash: run.authority_hash,
        parent_authority_hash: run.parent_authority_hash,
        allowed_tools: [...run.allowed_tools],
        removed_tools: missing(above?.allowed_tools, run.allowed_tools),
        delegated_tools: above ? missing(run.allowed_tools, above.allowed_tools) : [],
        allowed_connectors: [...run.allowed_connectors],
        removed_connectors: missing(above?.allowed_connectors, run.allowed_connectors),
        max_steps: run.max_steps,
      }
    }),
  }
}
