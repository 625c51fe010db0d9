/** Agents and swarms of the payments project that ask a model before each payment. */
import { z } from 'zod'
import { defineAgent, defineSwarm } from '../../../src/domains/agents/index.ts'
import { aModel, type ModelScripts } from '../fake-model.ts'

export const MODEL = 'small'
/** The tasks by which people start them. */
export const PAYING_RUN = 'Pay By Model'
export const PAYING_SWARM = 'pay_by_swarm'

const runtime = { name: 'ai_sdk' }
const model = { model: MODEL, output_tokens_max: 100 }
const allowed_tools = ['pay_as_agent', 'create_artifact']

export function payingAgents(modelUrl: string) {
  const payer = (agent_name: string) => ({
    agent_name,
    agent_role: 'worker',
    delegated_goal: 'Pay.',
    allowed_tools,
    max_steps: 8,
  })
  return {
    models: [aModel(modelUrl, { name: MODEL })],
    agents: [
      defineAgent(PAYING_RUN, {
        input: z.object({ note: z.string() }),
        goal: 'Pay.',
        role: 'worker',
        tools: allowed_tools,
        model,
        runtime,
        limits: { max_steps: 8 },
      }),
    ],
    swarms: [
      defineSwarm(PAYING_SWARM, {
        objective: 'Pay.',
        execution_mode: 'parallel',
        join_strategy: 'map_reduce',
        inputs: ['note'],
        coordinator: {
          agent_name: 'lead',
          agent_role: 'coordinator',
          allowed_tools: ['spawn_subagent', ...allowed_tools],
        },
        agents: [payer('a'), payer('b')],
        model,
        runtime,
      }),
    ],
  }
}

const slowly = { trouble: 'slow', times: 1_000_000 } as const
/** Each answer takes a while, so that a stop meets it. */
export const payingScripts: ModelScripts = {
  'fake-small': [
    { ...slowly, calls: [{ name: 'pay_as_agent', arguments: { note: 'n' } }] },
    { ...slowly, calls: [{ name: 'create_artifact', arguments: { type: 'analysis', content: { text: 'Paid.' } } }] },
    { ...slowly, text: 'Done.' },
  ],
}
