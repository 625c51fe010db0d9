/** The refusals of agent runs: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const agentRefusals = {
  'agents.run.not_found': ['not_found', 'GET /agent-runs lists them.'],
  'agents.run.ended': ['conflict', 'Start another run with a new command.'],
  'agents.run.busy': ['conflict', 'Wait until the calls of its last answer have ended, then send the action again.'],
  'agents.run.no_steps': ['conflict', 'Start another run with a higher max_steps.'],
  'agents.run.not_yours': ['forbidden', 'Ask the requester of the run, or an administrator.'],
  'agents.call.invalid': ['invalid', 'Send the fields that the tool takes. GET /task-types shows them.'],
  'agents.call.by_reference': ['invalid', 'Propose it with POST /memory, as the person for whom the agent acts.'],
  'agents.memory.subject': ['invalid', 'Give each field of the input that `memory.subject` of the agent names.'],
  'agents.swarm.not_found': ['not_found', 'GET /swarms lists them.'],
  'agents.swarm.invalid': ['invalid', 'Correct the named field. docs/guides/run-agents.md shows a swarm.'],
  'agents.tool.outside_scope': ['forbidden', 'Use one of the tools in `facts.tools`.'],
  'agents.runtime.unknown': [
    'configuration',
    'Name one of the runtimes, or add yours to `agentRuntimes` of the project.',
  ],
  'agents.model.unknown': ['configuration', 'Name one of the models, or add yours to `models` of the project.'],
  'agents.tool.unknown': [
    'configuration',
    'Name a task that is open to `agent_action`. `concord task-types` lists the tasks.',
  ],
  limit_value: ['invalid', 'Give a whole number from 1, or leave the limit out.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    agents: typeof agentRefusals
  }
}
