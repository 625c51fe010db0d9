/** Swarms: list, and one with the tree of its agents, the proofs of their authority and the losers of its join. */
import { idField } from '#contract'
import {
  listSwarmRuns,
  readSwarmTree,
  swarmDetailView,
  swarmPageView,
  toSwarmDetailView,
  toSwarmView,
} from '#domains/agents'
import { mayReadCommand, readCommand } from '#domains/commands'
import { accept, refuse } from '#kernel/refusal'
import { cutPage, scoped } from '#store'
import type { ApiDeps } from './api-deps.ts'
import { resource, routes } from './resource.ts'

const { list, get } = resource<Pick<ApiDeps, 'db'>>('swarms')

export const swarmRoutes = routes({
  listSwarms: list('/swarms', {
    summary: 'List the swarms of the workspace, newest first',
    role: 'reader',
    page: [swarmPageView, 'A page of swarms.'],
    scope: ({ workspaceId }) => [workspaceId],
    async read({ deps, workspaceId }, from, limit) {
      const rows = await listSwarmRuns(deps.db, { workspaceId, beforeId: from?.[0] ?? null, limit: limit + 1 })
      return accept(cutPage(rows, limit, toSwarmView, ({ swarm_run_id }) => swarm_run_id))
    },
  }),
  getSwarm: get('/swarms/{swarm_run_id}', {
    summary: 'Get a swarm with its agents, the proofs of their authority, and its join',
    role: 'reader',
    params: { swarm_run_id: idField('swarm_run') },
    answers: { 200: ['The swarm.', swarmDetailView] },
    problems: [400, 404],
    async handle({ deps, principal, workspaceId, params: { swarm_run_id: swarmRunId } }) {
      const tree = await scoped(deps.db, workspaceId).read((tx) => readSwarmTree(tx, workspaceId, swarmRunId))
      if (!tree.ok) return tree
      const command = await readCommand(deps.db, workspaceId, tree.value.swarm.command_id)
      if (!command.ok || !mayReadCommand(principal, command.value.command))
        return refuse('agents.swarm.not_found', 'There is no such swarm.')
      return accept(toSwarmDetailView(tree.value))
    },
  }),
})
