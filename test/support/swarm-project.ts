/** Swarms for tests: one for each mode, join, limit and end. */
import { NoModelAnswer } from '../../src/domains/agents/deps.ts'
import { defineSwarm } from '../../src/domains/agents/index.ts'
import { calls, evaluates, pays, type Play, playedBy, writes } from './swarms.ts'

const lead = {
  agent_name: 'lead',
  agent_role: 'coordinator',
  allowed_tools: ['spawn_subagent', 'create_artifact', 'read_artifact', 'request_approval'],
}
const agent = (agent_name: string, play: Play, agent_role = 'worker', more: object = {}) => ({
  agent_name,
  agent_role,
  delegated_goal: `Do the part of ${agent_name}.`,
  allowed_tools: ['create_artifact', 'pay'],
  runtime: playedBy(play),
  ...more,
})
const writer = (name: string, more: object = {}) => agent(name, calls([writes(name)]), 'worker', more)
const payer = (name: string) => agent(name, calls([pays(name)], [writes(name)]))
type Spec = Parameters<typeof defineSwarm>[1]
const swarm = (
  name: string,
  mode: Spec['execution_mode'],
  join: Spec['join_strategy'],
  agents: Spec['agents'],
  more: Partial<Spec> = {},
) =>
  defineSwarm(name, {
    objective: 'Do it.',
    execution_mode: mode,
    join_strategy: join,
    coordinator: lead,
    agents,
    ...more,
  })

const judges = agent(
  'judge',
  calls((told) => told.map((id, index) => evaluates(id, 'pass', 0.6 + index / 10))),
  'evaluator',
)
const strict = agent(
  'strict',
  calls((told) => told.map((id) => evaluates(id, 'fail', 0.9))),
  'reviewer',
)
const kind = agent(
  'kind',
  calls((told) => told.slice(-1).map((id) => evaluates(id, 'pass', 0.9))),
  'reviewer',
)
/** Its model costs more than is left, until it has to end. */
const costly: Play = ({ isLast }) => {
  if (!isLast) throw new NoModelAnswer({ t: 'exhausted', reason: 'Too little is left.', neededUnits: '5' })
  return { final: { text: 'This far.' } }
}
/** It has the tools of its role alone, and judges with `evaluate_output`. */
const critic = agent(
  'critic',
  calls((told) =>
    told.map((artifact_id) => ({
      tool: 'evaluate_output',
      check: {
        evaluation_type: 'reviewer_critique',
        artifact_id,
        decision: 'passed',
        confidence: 0.9,
        issues: [],
        recommendation: 'Publish it.',
      },
    })),
  ),
  'reviewer',
  { allowed_tools: ['read_artifact', 'evaluate_output', 'request_human_input'] },
)
const fails = calls([{ tool: 'nothing' }, { tool: 'nothing' }])
const synthesis: Play = ({ turn, told }) =>
  turn === 0
    ? {
        calls: [
          {
            id: 'c',
            actionType: 'create_artifact',
            toolName: 'create_artifact',
            payload: { type: 'final_report', content: { text: `from ${told.length}` }, sources: [...told] },
            reason: 'join',
          },
        ],
      }
    : { final: { text: 'done' } }
const spawning =
  (names: readonly string[], more: object = {}): Play =>
  ({ turn }) =>
    turn === 0
      ? {
          calls: names.map((agent_name) => ({
            id: agent_name,
            actionType: 'spawn_subagent' as const,
            toolName: 'spawn_subagent',
            payload: {
              agent_name,
              agent_role: 'worker',
              delegated_goal: 'help',
              allowed_tools: ['create_artifact'],
              max_steps: 3,
              ...more,
            },
            reason: 'help',
          })),
        }
      : { final: { text: 'done' } }
const spawns = spawning(['x', 'y'])
const spawner = (play: Play) => agent('a', play, 'worker', { allowed_tools: ['spawn_subagent', 'create_artifact'] })

/** Writes an artifact and publishes it at once. */
const publishes = calls([writes('early')], (_told, [written]) => {
  const { artifact_id, digest } = (written?.content ?? {}) as { readonly artifact_id: string; readonly digest: string }
  return [{ tool: 'publish_artifact', artifact_id, checksum: digest, destination: 'internal' }]
})

export const testSwarms = [
  swarm('all_of_them', 'parallel', 'all_success', [writer('a'), writer('b'), writer('c')]),
  swarm('one_by_one', 'sequential', 'all_success', [writer('a'), writer('b'), writer('c')]),
  swarm(
    'two_at_once',
    'parallel',
    'all_success',
    ['a', 'b', 'c', 'd'].map((name) => writer(name)),
    { limits: { max_parallel: 2 } },
  ),
  swarm('optional', 'parallel', 'all_success', [
    writer('a'),
    agent('b', fails, 'worker', { required: false, max_steps: 1 }),
  ]),
  swarm('costly', 'parallel', 'all_success', [agent('a', costly)], { limits: { max_cost_units: 1 } }),
  swarm('required', 'parallel', 'all_success', [writer('a'), agent('b', fails, 'worker', { max_steps: 1 })]),
  swarm('race', 'competitive', 'first_success', ['a', 'b', 'c', 'd', 'e'].map(payer), { limits: { max_agents: 6 } }),
  swarm('select', 'competitive', 'evaluator_selection', [payer('a'), payer('b'), judges]),
  swarm('synthesis', 'parallel', 'coordinator_synthesis', [writer('a'), writer('b')], {
    coordinator: { ...lead, runtime: playedBy(synthesis) },
  }),
  swarm('reviewed', 'review_driven', 'all_success', [writer('a'), kind]),
  swarm('refused', 'review_driven', 'all_success', [writer('a'), strict]),
  swarm('publishing', 'review_driven', 'all_success', [
    agent('a', publishes, 'worker', { allowed_tools: ['create_artifact', 'publish_artifact'] }),
    critic,
  ]),
  swarm('gated', 'parallel', 'all_success', [writer('a')], {
    coordinator: { ...lead, approval_gates: ['spawn_subagent'] },
  }),
  swarm(
    'by_role',
    'hierarchical',
    'all_success',
    [{ ...spawner(spawning(['x'], { agent_role: 'clerk' })), agent_role: 'manager', allowed_child_roles: ['worker'] }],
    { coordinator: { ...lead, allowed_child_roles: ['manager'] } },
  ),
  swarm('of_managers', 'parallel', 'human_review', [writer('m', { agent_role: 'manager' })], {
    coordinator: { ...lead, allowed_child_roles: ['manager'] },
  }),
  swarm('by_people', 'parallel', 'human_review', [writer('a')]),
  swarm('carved', 'parallel', 'human_review', [writer('a', { max_cost_units: 4, deadline_minutes: 30 })], {
    limits: { max_agents: 20, max_cost_units: 10, deadline_minutes: 60 },
    runtime: playedBy(calls([{ tool: 'request_approval', question: 'ok?' }])),
  }),
  swarm(
    'poor_child',
    'parallel',
    'all_success',
    [writer('a'), agent('b', costly, 'worker', { max_cost_units: 1, required: false })],
    {
      limits: { max_cost_units: 10 },
    },
  ),
  swarm(
    'by_people_paid',
    'parallel',
    'human_review',
    ['a', 'b'].map((name) => agent(name, calls([pays(`${name}1`)], [pays(`${name}2`)], [writes(name)]))),
  ),
  swarm('in_parts', 'parallel', 'map_reduce', [writer('b'), writer('a')]),
  swarm('nested', 'hierarchical', 'all_success', [spawner(spawns)], { runtime: playedBy(calls([writes('x')])) }),
  swarm('too_deep', 'hierarchical', 'all_success', [spawner(spawns)], {
    limits: { max_depth: 1 },
  }),
  swarm('too_many', 'parallel', 'all_success', [writer('a')], {
    limits: { max_agents: 2 },
    createPlan: {
      createSwarmPlan: async () =>
        ['a', 'b'].map((agent_name) => ({
          agent_name,
          agent_role: 'worker',
          delegated_goal: 'Do it.',
          allowed_tools: ['create_artifact'],
        })),
    },
  }),
  swarm('too_long', 'parallel', 'all_success', [writer('a'), writer('b')], { limits: { max_total_steps: 35 } }),
  swarm('late', 'parallel', 'human_review', [writer('a')], { limits: { deadline_minutes: 1 } }),
  swarm('bad_plan', 'parallel', 'all_success', [writer('a')], {
    createPlan: { createSwarmPlan: async () => [{}] as never },
  }),
  swarm('unjudged', 'review_driven', 'all_success', [writer('a'), kind], {
    createPlan: {
      createSwarmPlan: async () => [
        { agent_name: 'a', agent_role: 'worker', delegated_goal: 'Do it.', allowed_tools: ['create_artifact'] },
      ],
    },
  }),
  swarm('broken_planner', 'parallel', 'all_success', [writer('a')], {
    createPlan: { createSwarmPlan: () => Promise.reject(new Error('It broke.')) },
  }),
  swarm('terminal', 'parallel', 'all_success', [
    agent('a', fails, 'worker', { max_steps: 1, constraints: { terminal_on_child_failure: true } }),
    agent(
      'b',
      () => ({
        calls: [
          {
            id: 'q',
            actionType: 'request_approval',
            toolName: 'request_approval',
            payload: { question: 'ok?' },
            reason: 'q',
          },
        ],
      }),
      'worker',
      {
        allowed_tools: ['request_approval'],
      },
    ),
  ]),
  swarm(
    'nested_terminal',
    'hierarchical',
    'all_success',
    [spawner(spawning(['x'], { max_steps: 1, constraints: { terminal_on_child_failure: true } }))],
    { runtime: playedBy(fails) },
  ),
  swarm('led_without_judges', 'review_driven', 'all_success', [writer('x'), kind], {
    planner: 'coordinator',
    coordinator: { ...lead, runtime: playedBy(spawning(['x'])) },
  }),
  swarm('planned_by_agent', 'parallel', 'all_success', [], {
    planner: 'coordinator',
    coordinator: { ...lead, allowed_tools: [...lead.allowed_tools], runtime: playedBy(spawns) },
    runtime: playedBy(calls([writes('x')])),
  }),
]
