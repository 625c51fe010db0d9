/** Agent runs: list, get, their steps and messages, and actions of an agent under its run. A run starts with POST /commands. */

import { idField, pageView } from '#contract'
import {
  actInRun,
  actInRunBody,
  type AgentDeps,
  agentMessageView,
  agentRunDetailView,
  agentRunStatus,
  agentRunView,
  agentStepView,
  authorityView,
  getAgentRun,
  getReadableRun,
  listAgentRuns,
  listMessages,
  listAgentSteps,
  proveAuthority,
  runActionView,
  toAgentMessageView,
  toAgentRunDetailView,
  toAgentRunView,
  toAgentStepView,
  toAuthorityView,
} from '#domains/agents'
import { accept } from '#kernel/refusal'
import { cutPage, scoped } from '#store'
import { resource, routes, shown } from './resource.ts'

type Api = { readonly agents: AgentDeps }

const { list, get, post } = resource<Api>('agents')
const params = { agent_run_id: idField('agent_run') }
const afterOf = (from: readonly string[] | undefined) => (from?.[0] === undefined ? null : Number(from[0]))

export const agentRunRoutes = routes({
  listAgentRuns: list('/agent-runs', {
    summary: 'List the agent runs of the workspace, newest first',
    role: 'reader',
    query: {
      status: agentRunStatus.optional().meta({ description: 'Only runs in this state.' }),
      command_id: idField('command').optional().meta({ description: 'Only runs of this command.' }),
      swarm_run_id: idField('swarm_run').optional().meta({ description: 'Only runs of this swarm.' }),
    },
    page: [pageView(agentRunView, 'AgentRunPage'), 'A page of agent runs.'],
    scope: ({ workspaceId, query: { status, command_id, swarm_run_id } }) => [
      workspaceId,
      status ?? '',
      command_id ?? '',
      swarm_run_id ?? '',
    ],
    async read({ deps, workspaceId, query: { status, command_id, swarm_run_id } }, from, limit) {
      const asked = { workspaceId, status, commandId: command_id, swarmRunId: swarm_run_id }
      const page = { beforeId: from?.[0] ?? null, limit: limit + 1 }
      const rows = await listAgentRuns(deps.agents.commands.db, { ...asked, ...page })
      return accept(cutPage(rows, limit, toAgentRunView, ({ agent_run_id }) => agent_run_id))
    },
  }),
  getAgentRun: get('/agent-runs/{agent_run_id}', {
    summary: 'Get one agent run with its manifest',
    role: 'reader',
    agents: true,
    params,
    answers: { 200: ['The run.', agentRunDetailView] },
    problems: [403, 404],
    handle: ({ deps, principal, workspaceId, params: { agent_run_id } }) =>
      shown(getReadableRun(deps.agents, principal, workspaceId, agent_run_id, 'row'), toAgentRunDetailView),
  }),
  getAgentRunAuthority: get('/agent-runs/{agent_run_id}/authority', {
    summary: 'Prove what a run may do: every link from the person who asked down to the run',
    role: 'reader',
    agents: true,
    params,
    answers: { 200: ['The chain.', authorityView] },
    problems: [403, 404],
    async handle({ deps, principal, workspaceId, params: { agent_run_id } }) {
      const run = await getReadableRun(deps.agents, principal, workspaceId, agent_run_id, 'row')
      if (!run.ok) return run
      const { db } = deps.agents.commands
      const chain = await scoped(db, workspaceId).read((tx) => proveAuthority(tx, run.value))
      return accept(toAuthorityView(agent_run_id, chain))
    },
  }),
  listAgentRunSteps: list('/agent-runs/{agent_run_id}/steps', {
    summary: 'List the steps of a run in order: ids, digests, tokens and cost',
    role: 'reader',
    params,
    page: [pageView(agentStepView, 'AgentStepPage'), 'A page of steps.'],
    problems: [404],
    scope: ({ workspaceId, params: { agent_run_id } }) => [workspaceId, agent_run_id],
    async read({ deps, workspaceId, params: { agent_run_id } }, from, limit) {
      const { db } = deps.agents.commands
      const run = await getAgentRun(db, workspaceId, agent_run_id)
      if (!run.ok) return run
      const rows = await listAgentSteps(db, {
        workspaceId,
        agentRunId: agent_run_id,
        after: afterOf(from),
        limit: limit + 1,
      })
      return accept(cutPage(rows, limit, toAgentStepView, ({ step_index }) => String(step_index)))
    },
  }),
  listAgentMessages: list('/agent-runs/{agent_run_id}/messages', {
    summary: 'List the conversation of a run in order, for its requester and administrators',
    role: 'reader',
    params,
    page: [pageView(agentMessageView, 'AgentMessagePage'), 'A page of messages.'],
    problems: [403, 404],
    scope: ({ workspaceId, params: { agent_run_id } }) => [workspaceId, agent_run_id],
    async read({ deps, principal, workspaceId, params: { agent_run_id } }, from, limit) {
      const run = await getReadableRun(deps.agents, principal, workspaceId, agent_run_id, 'messages')
      if (!run.ok) return run
      const asked = { workspaceId, agentRunId: agent_run_id, after: afterOf(from), limit: limit + 1 }
      const rows = await listMessages(deps.agents.commands.db, asked)
      return accept(cutPage(rows, limit, toAgentMessageView, ({ position }) => String(position)))
    },
  }),
  actInRun: post('/agent-runs/{agent_run_id}/actions', {
    summary: 'Propose an action under a run, for an agent outside of Concord; the answer contains the decision',
    role: 'writer',
    agents: true,
    params,
    body: [actInRunBody, 'The action'],
    answers: { 200: ['The decision.', runActionView] },
    problems: [403, 404, 409],
    handle: ({ deps, principal, workspaceId, requestId, params: { agent_run_id }, body }) =>
      shown(
        actInRun(deps.agents, principal, { workspaceId, agentRunId: agent_run_id, requestId, ...body }),
        (view) => view,
      ),
  }),
})
