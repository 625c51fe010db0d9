/** The pre-flight of commands, agents and swarms: what they will need, as it is today. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { final, scripted, toolsForRuns } from '#test/agent-project'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { accepted, anOrgRole, TRACE } from '#test/tenant'
import { actingFor, allow, ask, defineCommand, defineEffect } from '#domains/commands'
import { defineAgent, defineSwarm, modelConnector, spawnDefinitions, swarmDefinitions } from './index.ts'
import { preflightTask } from './preflight.ts'

const transfer = defineEffect('bank.transfer', {
  input: z.object({ amount: z.number(), to: z.string() }),
  class: 'keyed',
  do: async () => ({ done: true }),
})
const post = defineEffect('letter.post', { input: z.object({ to: z.string() }), do: async () => ({ done: true }) })
const peek = defineEffect('desk.peek', { input: z.object({}), class: 'read', do: async () => ({ seen: 1 }) })

const wire = defineCommand('wire_money', {
  input: z.object({ amount: z.number().min(0), to: z.string() }),
  policy: ({ amount }) => (amount > 1_000 ? ask(1, 'owner') : allow()),
  steps: (input) => [transfer(input)],
})
const send = defineCommand('send_letter', {
  input: z.object({ to: z.string() }),
  policy: allow,
  steps: (input) => [post(input)],
})
const see = defineCommand('see_desk', { input: z.object({}), policy: allow, steps: () => [peek({})] })

const clerk = scripted('Clerk', [final], {
  tools: ['wire_money', 'send_letter', 'see_desk', 'ask_owner', 'never'],
  approvalGates: ['see_desk'],
  limits: { max_steps: 7, max_cost_units: 3 },
})
const writer = defineAgent('Writer', {
  input: z.object({ month: z.string() }),
  goal: 'Write.',
  role: 'author_of_reports',
  tools: ['see_desk', 'does_not_exist'],
  runtime: 'no_such_runtime',
  model: { model: 'tiny' },
  limits: { max_steps: 10 },
})
const poor = defineAgent('Poor', {
  input: z.object({}),
  goal: 'Look.',
  role: 'analyst',
  tools: ['see_desk', 'wire_money', 'request_human_input'],
  runtime: 'ai_sdk',
  model: { model: 'tiny' },
  limits: { max_steps: 3, max_cost_units: 0.001 },
})
const tiny = modelConnector({
  name: 'tiny',
  provider: 'openai',
  baseUrl: 'https://models.example.com/v1',
  apiKey: 'env://KEY',
  model: 'tiny-1',
  prices: { input: '1', output: '2' },
  contextTokens: 1_000,
  outputTokensMax: 500,
})

const team = defineSwarm('team', {
  objective: 'Write together.',
  execution_mode: 'parallel',
  join_strategy: 'all_success',
  limits: { max_cost_units: 0.5, max_total_steps: 30 },
  coordinator: {
    agent_name: 'Lead',
    agent_role: 'coordinator',
    allowed_tools: ['spawn_subagent'],
    approval_gates: ['see_desk'],
  },
  agents: [
    {
      agent_name: 'Bo',
      agent_role: 'worker',
      allowed_tools: ['send_letter', 'lost', 'look', 'see_desk'],
      delegated_goal: 'Send.',
      approval_gates: ['look'],
    },
  ],
  runtime: { name: 'scripted' },
  model: { model: 'tiny' },
})

describe('pre-flight', () => {
  let room: AgentRoom
  before(async () => {
    const own = [wire, send, see].flatMap(({ definitions }) => definitions)
    const tools = [...toolsForRuns({ paid: [], looked: 0 }), ...own]
    const swarms = [...team.definitions, ...spawnDefinitions(() => room.agents), ...swarmDefinitions(() => room.agents)]
    room = await openAgentRoom([clerk, writer, poor], [...new Set([...tools, ...swarms])], [], [tiny])
  })
  after(() => room.close())
  const fly = (taskName: string, payload = {}, person: 'writer' | 'admin' = 'writer') =>
    preflightTask(
      { ...room.agents, swarms: new Map([['team', team]]) },
      actingFor(room.tenant.people[person].principal, TRACE),
      {
        workspaceId: room.tenant.workspace.id,
        requestId: 'r',
        taskName,
        payload,
      },
    )
  const countCommands = () => room.rows('select count(*) from concord.commands')

  test('goes over every tool of an agent: who approves when, what cannot be undone, the limit of cost', async () => {
    const recorded = await countCommands()
    const found = accepted(await fly('Clerk'))
    assert.equal(found.kind, 'agent')
    assert.deepEqual(
      found.approvals.map(({ needed_by, when, approver }) => [needed_by, when, approver]),
      [
        ['wire_money', 'arguments', 'role:owner'],
        ['wire_money', 'untrusted_content', 'role:approver'],
        ['send_letter', 'untrusted_content', 'role:approver'],
        ['see_desk', 'always', 'role:approver'],
        ['ask_owner', 'always', 'role:owner'],
      ],
    )
    assert.deepEqual(
      found.irreversible.map(({ needed_by, effect_type, effect_class }) => [needed_by, effect_type, effect_class]),
      [
        ['wire_money', 'bank.transfer', 'keyed'],
        ['send_letter', 'letter.post', 'opaque'],
      ],
    )
    const limit = { limit_units: '3.000000', call_units: null, calls_max: 7, worst_case_units: '3.000000' }
    assert.deepEqual(found.spend, limit)
    assert.ok(found.missing.some(({ name, reason }) => name === 'never' && reason.includes('Not here.')))
    assert.deepEqual(await countCommands(), recorded)
  })

  test('names the people who can decide today, and what is missing while nobody can', async () => {
    const [none] = accepted(await fly('ask_owner', { note: 'n' })).approvals
    assert.deepEqual([none?.could_decide, none?.blocked_by?.code], [[], 'role_without_members'])
    assert.equal(accepted(await fly('ask_owner', { note: 'n' })).missing[0]?.kind, 'approver')
    const { admin, writer: requester } = room.tenant.people
    await anOrgRole(room.clock, room.tenant.orgId, 'owner', [admin, requester])
    const found = accepted(await fly('ask_owner', { note: 'n' }))
    // The requester has the role too, and decides nothing of their own.
    assert.deepEqual([found.approvals[0]?.could_decide, found.missing], [[admin.principal.externalId], []])
    const byAdmin = accepted(await fly('ask_owner', { note: 'n' }, 'admin'))
    assert.deepEqual(byAdmin.approvals[0]?.could_decide, [requester.principal.externalId])
  })

  test('finds the tool that is missing, and prices the calls that are possible', async () => {
    const found = accepted(await fly('Writer', { month: '2026-05' }))
    assert.equal(found.is_ready, false)
    assert.deepEqual(
      found.missing.map(({ kind, name, needed_by }) => [kind, name, needed_by]),
      [['tool', 'does_not_exist', 'Writer']],
    )
    // A program can ask its model as often as it wants: without a limit there is no worst case.
    assert.deepEqual([found.spend?.call_units, found.spend?.worst_case_units], ['0.002000', null])
    assert.ok(found.unknown.some(({ what }) => what.startsWith('The cost')))
  })

  test('a limit below the worst case of one call names who is asked for more; only fields that an agent cannot write are open', async () => {
    const found = accepted(await fly('Poor'))
    assert.deepEqual(
      found.approvals
        .filter(({ needed_by }) => needed_by === 'raise_budget')
        .map(({ when, approver }) => [when, approver]),
      [['always', 'role:operator']],
    )
    const { kind, name, needed_by } = found.missing[0] ?? {}
    assert.deepEqual([kind, name, needed_by], ['approver', 'role:operator', 'raise_budget'])
    const supplied = found.unknown.filter(({ what }) => what.includes('a person supplies')).map(({ what }) => what)
    assert.deepEqual(supplied, ['request_human_input: a person supplies answer.'])
  })

  test('a swarm: the tools of all its agents, and the lower of its limit and of all calls', async () => {
    const found = accepted(await fly('team'))
    assert.equal(found.kind, 'swarm')
    assert.ok(found.missing.some(({ name, needed_by }) => name === 'lost' && needed_by === 'Bo'))
    assert.deepEqual(found.tools.find(({ name }) => name === 'send_letter')?.agents, ['Bo'])
    assert.equal(found.spend?.worst_case_units, '0.060000')
    for (const gated of ['look', 'see_desk'])
      assert.ok(
        found.approvals.some(({ needed_by, when }) => needed_by === gated && when === 'always'),
        gated,
      )
  })

  test('a command: the answer for its own payload; a wrong payload and an unknown task as at a submit', async () => {
    const large = accepted(await fly('wire_money', { amount: 5_000, to: 'x' }))
    assert.deepEqual([large.kind, large.spend, large.approvals.length], ['command', null, 1])
    const small = accepted(await fly('wire_money', { amount: 5, to: 'x' }))
    assert.deepEqual([small.is_ready, small.approvals.length], [true, 0])
    const wrong = accepted(await fly('wire_money', { amount: 'much', to: 'x' }))
    assert.deepEqual([wrong.is_ready, wrong.status], [false, 'failed'])
    const unknown = await fly('wire_mony')
    assert.equal(!unknown.ok && unknown.code, 'task_unknown')
  })
})
