import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anyHost, openCatalog, shippedPolicies } from '#domains/commands'
import { parseYaml } from '#test/parse-yaml'
import { agentTerms, delegableTools, loadSwarm, readSwarm, swarmOf } from './swarm-definition.ts'
import { swarmDefinitions } from './swarm-effect.ts'

/** As printed in the standard YAML specification. */
const PRINTED = `
name: revenue_report_swarm
objective: Generate and review a monthly revenue report.
execution_mode: parallel
join_strategy: coordinator_synthesis
limits:
  max_agents: 4
  max_depth: 1
  max_total_steps: 80
  max_cost_units: 50
coordinator:
  agent_name: revenue_report_coordinator
  agent_role: coordinator
  max_steps: 20
  allowed_tools: [spawn_subagent, read_artifact, create_artifact, request_approval]
  allowed_connectors: [postgres, databricks]
agents:
  - agent_name: revenue_researcher
    agent_role: researcher
    delegated_goal: Gather source data and assumptions.
    max_steps: 15
    allowed_tools: [run_sql, retrieve_memory, create_artifact]
    allowed_connectors: [postgres, databricks]
  - agent_name: revenue_analyst
    agent_role: analyst
    delegated_goal: Compute metrics and produce analysis.
    max_steps: 15
    allowed_tools: [run_sql, create_artifact]
    allowed_connectors: [postgres, databricks]
  - agent_name: revenue_reviewer
    agent_role: reviewer
    delegated_goal: Validate the final report and identify risks.
    max_steps: 10
    allowed_tools: [read_artifact, evaluate_output, request_human_input]
    allowed_connectors: [postgres]
`
const printed = () => parseYaml(PRINTED) as Record<string, unknown>

test('[YML-05] the printed swarm loads, with 4 agents, depth 1, 80 steps and 50 cost units', () => {
  const read = readSwarm(printed())
  assert.ok(read.ok, JSON.stringify(read))
  const { max_agents, max_depth, max_total_steps, max_cost_units } = read.value.limits
  assert.deepEqual([max_agents, max_depth, max_total_steps, max_cost_units], [4, 1, 80, 50])
  // What was printed is there, field by field; the rest are defaults.
  const { limits: _limits, coordinator, agents, ...rest } = printed()
  assert.partialDeepStrictEqual(read.value, rest)
  assert.partialDeepStrictEqual(read.value.coordinator, coordinator)
  assert.equal(read.value.agents.length, 3)
  for (const [at, agent] of (agents as readonly object[]).entries())
    assert.partialDeepStrictEqual(read.value.agents[at], agent)
  const never = () => assert.fail('nothing runs')
  const definitions = [...shippedPolicies, ...swarmDefinitions(never), ...swarmOf(read.value).definitions]
  const opened = openCatalog(definitions, anyHost)
  assert.ok(opened.ok, JSON.stringify(opened))
})

test('[YML-05] a limit of 0, NaN or 1e309 is refused with its path, and so is an unknown key', () => {
  for (const limit of ['max_agents', 'max_depth', 'max_total_steps', 'max_cost_units'])
    for (const value of [0, -1, Number.NaN, parseYaml('1e309') as number, 'many']) {
      const limits = { ...(printed()['limits'] as object), [limit]: value }
      const read = readSwarm({ ...printed(), limits })
      assert.ok(!read.ok && read.code === 'limit_value' && read.path === `limits.${limit}`, `${limit} ${value}`)
    }
  for (const [limit, value] of [
    ['max_steps', 0],
    ['max_cost_units', 0],
    ['deadline_minutes', Number.POSITIVE_INFINITY],
  ] as const) {
    const agents = (printed()['agents'] as readonly object[]).map((agent) => ({ ...agent, [limit]: value }))
    const read = readSwarm({ ...printed(), agents })
    assert.ok(!read.ok && read.code === 'limit_value' && read.path === `agents[0].${limit}`, JSON.stringify(read))
  }
  const unknown = readSwarm({ ...printed(), coordinator: { ...(printed()['coordinator'] as object), budget: 1 } })
  assert.ok(!unknown.ok && unknown.code === 'agents.swarm.invalid' && unknown.path === 'coordinator')
})

test('[YML-05] a mistyped field of a file is refused with its line, its path and the nearest field, also a required one', () => {
  const load = (from: string, to: string) => {
    const read = loadSwarm('swarm.yaml', new TextEncoder().encode(PRINTED.replace(from, to)))
    return read.ok ? read : [read.code, read.path, read.hint, read.facts?.['line']]
  }
  for (const [from, to, path, near, line] of [
    ['objective:', 'objektive:', 'objektive', 'objective', 3],
    ['max_agents', 'max_agent', 'limits.max_agent', 'max_agents', 7],
    ['agent_role', 'agent_rol', 'coordinator.agent_rol', 'agent_role', 13],
    ['delegated_goal', 'delegated_gaol', 'agents[0].delegated_gaol', 'delegated_goal', 20],
  ] as const)
    assert.deepEqual(load(from, to), ['unknown_field', path, `Did you mean \`${near}\`?`, line])
  assert.deepEqual(load('max_depth: 1', 'max_depth: 0'), ['limit_value', 'limits.max_depth', undefined, 8])
})

test('[SWM-26] the coordinator can pass on exactly the tools that the template declares for a child and that it lacks itself', () => {
  const read = readSwarm(printed())
  assert.ok(read.ok)
  assert.deepEqual(delegableTools(read.value), ['evaluate_output', 'request_human_input', 'retrieve_memory', 'run_sql'])
  const set = readSwarm({ ...printed(), delegable_tools: ['publish_artifact'] })
  assert.ok(!set.ok, 'nobody but the loader sets them')
  assert.deepEqual(delegableTools({ ...read.value, agents: [] }), [])
})

test('a gate holds for every child that is not declared with the tool, whatever its name', () => {
  const agent = { agent_role: 'worker', delegated_goal: 'Pay.', allowed_tools: ['pay'] }
  const payer = { ...agent, agent_name: 'payer', approval_gates: ['pay'] }
  const clerk = { ...agent, agent_name: 'clerk', allowed_tools: ['look'], approval_gates: ['look'] }
  const cashier = { ...agent, agent_name: 'cashier' }
  const read = readSwarm({ ...printed(), limits: {}, agents: [payer, clerk, cashier] })
  assert.ok(read.ok, JSON.stringify(read))
  const gatesOf = (agent_name: string, agent_role = 'worker') => {
    const [first] = read.value.agents
    assert.ok(first)
    return agentTerms(read.value, { ...first, agent_name, agent_role }).approval_gates.toSorted()
  }
  assert.deepEqual(gatesOf('payer2'), ['look', 'pay'])
  assert.deepEqual(gatesOf('payer', 'analyst'), ['look', 'pay'], 'another role is another agent')
  assert.deepEqual(gatesOf('clerk'), ['look', 'pay'])
  assert.deepEqual(gatesOf('payer'), ['look', 'pay'])
  assert.deepEqual(agentTerms(read.value, read.value.coordinator).approval_gates, [])
  assert.deepEqual(gatesOf('cashier'), ['look'], 'it is declared with the tool and without the gate')
})

const broken: readonly (readonly [string, object, string])[] = [
  ['a join that does not fit the mode', { join_strategy: 'best_of_n' }, 'join_strategy'],
  ['an unknown mode', { execution_mode: 'human_supervised' }, 'execution_mode'],
  [
    'a judged join without a judge',
    { execution_mode: 'competitive', join_strategy: 'best_of_n', agents: [] },
    'agents',
  ],
  [
    'a coordinator without the tool to start agents',
    { coordinator: { agent_name: 'c', agent_role: 'c', allowed_tools: [] } },
    'coordinator.allowed_tools',
  ],
  ['more agents than its own limit', { limits: { max_agents: 3 } }, 'limits.max_agents'],
  [
    'a cost that no account can hold',
    { limits: { max_agents: 4, max_cost_units: 0.000_000_1 } },
    'limits.max_cost_units',
  ],
]
for (const [what, change, path] of broken) {
  test(`a swarm with ${what} is refused`, () => {
    const read = readSwarm({ ...printed(), ...change })
    assert.ok(!read.ok && read.path === path, JSON.stringify(read))
  })
}
