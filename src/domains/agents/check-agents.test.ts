import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { type CompiledTask, defineTask } from '#domains/commands'
import { defineAgent } from './agent-definition.ts'
import { agentsOfSwarms, checkAgents, checkToolsOfAgents } from './check-agents.ts'
import { agentRefusals } from './refusals.ts'
import { defineSwarm } from './swarms/swarm-definition.ts'

const agent = (runtime: string, model: Record<string, string> = {}) =>
  defineAgent('Look', { input: z.object({}), goal: 'Look.', role: 'worker', tools: [], runtime, model })

test('an agent with a runtime or a model that the project does not have stops the start, as a mistake of configuration', () => {
  const codeOf = (given: ReturnType<typeof agent>) => {
    const checked = checkAgents([given], ['scripted', 'ai_sdk', 'program'], ['small'])
    return checked.ok
      ? 'accepted'
      : [checked.code, checked.path, agentRefusals[checked.code as 'agents.model.unknown'][0]]
  }
  assert.equal(codeOf(agent('scripted')), 'accepted')
  assert.equal(codeOf(agent('ai_sdk', { model: 'small' })), 'accepted')
  assert.equal(codeOf(agent('program')), 'accepted')
  assert.deepEqual(codeOf(agent('other')), ['agents.runtime.unknown', 'agents.Look.runtime', 'configuration'])
  for (const wrong of [agent('ai_sdk'), agent('ai_sdk', { model: 'large' }), agent('program', { model: 'large' })])
    assert.deepEqual(codeOf(wrong), ['agents.model.unknown', 'agents.Look.model', 'configuration'])
})

test('what the project has is in the reason, and the nearest name is the hint: a terminal prints no facts', () => {
  const refused = checkAgents([agent('ai_sdk', { model: 'smal' })], ['scripted', 'ai_sdk'], ['small', 'large'])
  assert.ok(!refused.ok)
  assert.equal(refused.reason, 'Look: There is no model "smal". The project has the models "small", "large".')
  assert.equal(refused.hint, 'Did you mean `small`?')
  const runtime = checkAgents([agent('script')], ['scripted', 'ai_sdk'], [])
  assert.ok(!runtime.ok && /The project has the runtimes "scripted", "ai_sdk"/.test(runtime.reason))
  const none = checkAgents([agent('ai_sdk')], ['ai_sdk'], [])
  assert.ok(!none.ok && none.reason === 'Look: It names no model. The project has no models.')
})

test('a tool that no task has, or that is closed to agents, stops the start; so does a gate that is almost a tool', () => {
  const task = (name: string, ...ingress_types: ('agent_action' | 'user_request')[]) => {
    const type = { name: name.toLowerCase() }
    const { spec } = defineTask({ name, description: 'd', command_type: type.name, function_name: 'f', ingress_types })
    // Only the names and the ingress types are read.
    return [name, { spec, type } as unknown as CompiledTask] as const
  }
  const tasks = new Map([task('Order Part', 'agent_action'), task('Pay Salaries', 'user_request')])
  const checked = (more: object) => {
    const given = { input: z.object({}), goal: 'Look.', role: 'worker', tools: ['order_part'], runtime: 'scripted' }
    const answer = checkToolsOfAgents([defineAgent('Look', { ...given, ...more })], { tasks })
    return answer.ok ? 'accepted' : [answer.code, answer.path, answer.reason, answer.hint]
  }
  const hint = 'Did you mean `order_part`?'
  const unknown = 'Look: There is no tool "order_prt".'
  assert.equal(checked({}), 'accepted')
  assert.deepEqual(checked({ tools: ['order_part', 'order_prt'] }), [
    'agents.tool.unknown',
    'agents.Look.tools.1',
    unknown,
    hint,
  ])
  assert.deepEqual(checked({ tools: ['pay_salaries'] }), [
    'agents.tool.unknown',
    'agents.Look.tools.0',
    'Look: The task "Pay Salaries" is not open to agents.',
    undefined,
  ])
  for (const [field, path] of [
    ['forbiddenTools', 'forbidden_tools'],
    ['approvalGates', 'approval_gates'],
  ] as const) {
    assert.deepEqual(checked({ [field]: ['order_prt'] }), [
      'agents.tool.unknown',
      `agents.Look.${path}.0`,
      unknown,
      hint,
    ])
    assert.equal(checked({ [field]: ['send_external_email'] }), 'accepted')
  }
})

const pair = (swarm: object, agent: object) =>
  agentsOfSwarms([
    defineSwarm('pair', {
      objective: 'Look.',
      execution_mode: 'parallel',
      join_strategy: 'all_success',
      coordinator: { agent_name: 'lead', agent_role: 'coordinator', allowed_tools: ['spawn_subagent'] },
      agents: [{ agent_name: 'one', agent_role: 'worker', delegated_goal: 'Look.', allowed_tools: [], ...agent }],
      ...swarm,
    }),
  ])

test('an agent of a swarm with an unknown runtime, model or tool stops the start, with its place in the swarm', () => {
  const pathOf = (swarm: object, agent: object) => {
    const checked = checkAgents(pair(swarm, agent), ['scripted', 'ai_sdk'], ['small'])
    return checked.ok ? 'accepted' : checked.path
  }
  assert.equal(pathOf({}, {}), 'accepted')
  assert.equal(pathOf({}, { runtime: { name: 'other' } }), 'swarms.pair.one.runtime')
  assert.equal(pathOf({ runtime: { name: 'ai_sdk' } }, { model: { model: 'small' } }), 'swarms.pair.lead.model')
  assert.equal(pathOf({ runtime: { name: 'ai_sdk' }, model: { model: 'small' } }, {}), 'accepted')
  const tools = checkToolsOfAgents(pair({}, { allowed_tools: ['nothing'] }).slice(1), { tasks: new Map() })
  assert.ok(!tools.ok && tools.path === 'swarms.pair.one.tools.0')
})
