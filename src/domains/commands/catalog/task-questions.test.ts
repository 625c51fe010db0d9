/** The questions of agentic tasks and swarms: complete answers pass, and each missing or invalid one is named. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { shippedPolicies } from './shipped-policies.ts'
import { agenticQuestions, findAnswerGaps, swarmQuestions } from './task-questions.ts'
import { defineCommandType, defineFunction, defineTask, type Definition } from './definitions.ts'
import { defineEffect } from './effect-definition.ts'
import { anyHost, openCatalog } from './open-catalog.ts'

const agent = {
  goal: 'Say why revenue fell.',
  callable_tools: ['run_sql'],
  readable_memories: [],
  writable_memories: [],
  policy_checked_tools: ['run_sql'],
  approval_actions: ['publish_report'],
  may_create_commands: true,
  may_create_artifacts: false,
  audit_per_loop: ['tool_call'],
  termination: ['final_answer_created', 'max_steps_reached'],
}
const perRole = { analyst: ['run_sql'], reviewer: [] }
const swarm = {
  parent_command: 'investigate_revenue',
  agent_or_function: 'agent',
  single_or_swarm: 'swarm',
  objective: 'Say why revenue fell.',
  coordinator: 'coordinator',
  allowed_roles: ['analyst', 'reviewer'],
  may_children_spawn: false,
  max_depth: 1,
  tools_per_agent: perRole,
  connectors_per_agent: perRole,
  memory_per_agent: perRole,
  memory_writers: [],
  artifacts_per_agent: perRole,
  join: 'coordinator_synthesis',
  approval_steps: [],
  cancellation_rules: 'The mode of the parent applies to every child.',
  compensation_rules: 'Each child undoes what it did, last first.',
  mandatory_audit: ['spawn_decided'],
}
const findAgenticGaps = (answers: unknown) => findAnswerGaps(agenticQuestions, answers)
const findSwarmGaps = (answers: unknown) => findAnswerGaps(swarmQuestions, answers)
const named = (gaps: readonly { readonly question: string }[]) => gaps.map(({ question }) => question)
const wrong = [undefined, null, '', '  ', 0, -1, 1.5, 'none', ['', 'x'], [1], {}, true] as const

test('[PRM-27] an agentic task answers ten questions; each missing or invalid answer is named', () => {
  assert.equal(Object.keys(agenticQuestions).length, 10)
  assert.deepEqual(findAgenticGaps(agent), [])
  assert.deepEqual(named(findAgenticGaps(undefined)), Object.keys(agenticQuestions))
  for (const question of Object.keys(agenticQuestions)) {
    const { [question as keyof typeof agent]: _, ...rest } = agent
    assert.deepEqual(named(findAgenticGaps(rest)), [question])
    const fits = wrong.filter((answer) => findAgenticGaps({ ...agent, [question]: answer }).length === 0)
    const allowed =
      typeof agent[question as keyof typeof agent] === 'boolean' ? [true] : question === 'goal' ? ['none'] : []
    assert.deepEqual(fits, allowed, question)
  }
})

test('[PRM-28] a swarm answers eighteen questions; each missing or invalid answer is named', () => {
  assert.equal(Object.keys(swarmQuestions).length, 18)
  assert.deepEqual(findSwarmGaps(swarm), [])
  assert.deepEqual(named(findSwarmGaps('yes')), Object.keys(swarmQuestions))
  for (const question of Object.keys(swarmQuestions)) {
    const { [question as keyof typeof swarm]: _, ...rest } = swarm
    const gaps = named(findSwarmGaps(rest))
    assert.deepEqual(gaps, [question])
    assert.ok(named(findSwarmGaps({ ...swarm, [question]: null })).includes(question), question)
  }
  assert.deepEqual(named(findSwarmGaps({ ...swarm, join: 'coin_toss' })), ['join'])
  assert.deepEqual(named(findSwarmGaps({ ...swarm, max_depth: -1 })), ['max_depth'])
  assert.deepEqual(named(findSwarmGaps({ ...swarm, tools_per_agent: { analyst: ['run_sql'] } })), ['tools_per_agent'])
})

const does = () => Promise.resolve({})
const contract = {
  payload: z.strictObject({}),
  error_classes: ['internal_error'] as const,
  cancellable_by: ['requester'] as const,
  audit: ['command_created'],
}

function findingsOf(mode: 'agentic' | 'swarm', metadata: object): readonly string[] {
  const definitions: readonly Definition[] = [
    ...shippedPolicies,
    defineEffect({ effect_type: 'work.think', class: 'read', do: does }),
    defineFunction({ name: 'think', plan: () => [] }),
    defineCommandType({
      name: 'think',
      description: 'd',
      side_effects: ['work.think'],
      execution_mode: mode,
      ...contract,
    }),
    defineTask({
      name: 'Think',
      description: 'd',
      command_type: 'think',
      function_name: 'think',
      ingress_types: ['user_request'],
      async_required: true,
      policy_checks: ['permission'],
      metadata: { ...metadata },
    }),
  ]
  const opened = openCatalog(definitions, anyHost)
  return opened.ok ? [] : ((opened.facts?.['findings'] ?? []) as { rule: string }[]).map(({ rule }) => rule)
}

test('[PRM-27] [PRM-28] the catalog refuses an agentic task or a swarm with unanswered questions, and names them', () => {
  assert.deepEqual(findingsOf('agentic', { agent }), [])
  assert.deepEqual(findingsOf('swarm', { swarm }), [])
  const { goal: _, ...aimless } = agent
  assert.deepEqual(findingsOf('agentic', { agent: aimless }), ['agentic.goal'])
  assert.deepEqual(findingsOf('swarm', { swarm: { ...swarm, coordinator: '' } }), ['swarm.coordinator'])
  assert.equal(findingsOf('swarm', {}).length, 18)
})

test('[SEC-05] a tool of agents that sends, notifies, remembers or publishes must check a rule about data safety', () => {
  const findings = (effect_type: string, ingress: 'agent_action' | 'user_request', policies: readonly string[]) => {
    const opened = openCatalog(
      [
        ...shippedPolicies,
        defineEffect({ effect_type, class: 'read', do: does }),
        defineFunction({ name: 'go', plan: () => [] }),
        defineCommandType({ name: 'go', description: 'd', side_effects: [effect_type], ...contract }),
        defineTask({
          name: 'Go',
          description: 'd',
          command_type: 'go',
          function_name: 'go',
          ingress_types: [ingress],
          async_required: true,
          memory_write_possible: true,
          artifact_output_possible: true,
          notification_required: true,
          policy_checks: policies,
        }),
      ],
      anyHost,
    )
    return opened.ok ? [] : ((opened.facts?.['findings'] ?? []) as { rule: string }[]).map(({ rule }) => rule)
  }
  for (const effect of ['notification.mail', 'memory.write', 'artifact.publish']) {
    assert.deepEqual(findings(effect, 'agent_action', ['permission']), ['agent_data_safety'], effect)
    assert.deepEqual(findings(effect, 'agent_action', ['permission', 'data_safety']), [], effect)
    assert.deepEqual(findings(effect, 'user_request', ['permission']), [], effect)
  }
  assert.ok(findings('connector.crm.sync', 'agent_action', ['permission']).includes('agent_data_safety'))
  // A rule of another category does not count.
  assert.ok(findings('memory.write', 'agent_action', ['cancellation_policy_disclosed']).includes('agent_data_safety'))
  assert.deepEqual(findings('work.think', 'agent_action', ['permission']), [])
})
