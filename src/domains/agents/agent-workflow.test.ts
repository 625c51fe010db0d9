/** The YAML form of an agent: the template of the guide loads, and each unknown field and each limit that is none is refused with its path. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadAgentWorkflow } from './agent-workflow.ts'
import { agentRoles } from './roles.ts'

const template = `agent_workflow:
  name: Investigate Revenue Anomaly
  command_type: investigate_revenue_anomaly
  allowed_tools: [run_sql, retrieve_memory, create_report_draft, request_human_input]
  forbidden_tools: [send_external_email, mutate_production_table]
  memory:
    read_scopes: [user, team, project]
    write_allowed: true
    write_requires_policy: true
  approval_gates: [publish_report, send_notification_external]
  termination:
    conditions: [final_answer_created, human_cancelled, max_steps_reached, policy_denied]
`
const load = (text: string) => loadAgentWorkflow('agent.yaml', new TextEncoder().encode(text))

test('[YML-02] [AGT-09] the form of an agent workflow loads with all its parts', () => {
  const loaded = load(template)
  assert.ok(loaded.ok && loaded.value)
  const { name, tools, forbidden_tools, memory, approval_gates, termination, limits } = loaded.value.agent
  assert.equal(name, 'Investigate Revenue Anomaly')
  assert.deepEqual(tools, ['run_sql', 'retrieve_memory', 'create_report_draft', 'request_human_input'])
  assert.deepEqual(forbidden_tools, ['send_external_email', 'mutate_production_table'])
  assert.deepEqual(
    [memory.read_scopes, memory.write_allowed, memory.write_requires_policy],
    [['user', 'team', 'project'], true, true],
  )
  assert.deepEqual(approval_gates, ['publish_report', 'send_notification_external'])
  const conditions = ['final_answer_created', 'human_cancelled', 'max_steps_reached', 'policy_denied']
  assert.deepEqual(termination.conditions, conditions)
  assert.equal(limits.max_steps, 20)
  assert.deepEqual(
    loaded.value.definitions.map(({ kind }) => kind),
    ['function', 'command_type', 'task'],
  )
  const type = loaded.value.definitions.find(({ kind }) => kind === 'command_type')
  assert.ok(type?.kind === 'command_type' && type.name === 'investigate_revenue_anomaly')
})

test('[YML-02] an unknown field, a wrong value and a limit that is none are refused with their paths', () => {
  const codeOf = (text: string) => {
    const loaded = load(text)
    return loaded.ok ? 'loaded' : `${loaded.code} ${loaded.path ?? ''}`
  }
  assert.equal(codeOf(`${template}  alowed_tools: []\n`), 'unknown_field agent_workflow.alowed_tools')
  assert.equal(
    codeOf(template.replace('write_allowed', 'write_alowed')),
    'unknown_field agent_workflow.memory.write_alowed',
  )
  assert.match(
    codeOf(template.replace('policy_denied', 'bored')),
    /^commands.definition.invalid agent_workflow.termination/,
  )
  assert.equal(codeOf(`${template}  limits: { max_steps: 0 }\n`), 'limit_value agent_workflow.limits.max_steps')
  assert.equal(codeOf(`${template}  role: analist\n`), 'commands.definition.invalid agent_workflow.role')
  assert.equal(codeOf(`${template}  role: author_of_reports\n`), 'loaded')
  assert.equal(codeOf(template.replace('read_scopes', 'schemas')), 'loaded')
  assert.notEqual(codeOf(`${template}  limits: { max_steps: 1e309 }\n`), 'loaded')
  assert.deepEqual(load('task: {}\n'), { ok: true, value: undefined })
})

test('[AGT-21] [SWM-30] twelve roles have names, and those of the printed table have exactly its tools', () => {
  assert.equal(Object.keys(agentRoles).length, 12)
  assert.deepEqual(agentRoles.researcher, ['run_sql', 'retrieve_memory', 'create_artifact'])
  assert.deepEqual(agentRoles.analyst, ['run_sql', 'create_artifact', 'evaluate_output'])
  assert.deepEqual(agentRoles.reviewer, ['read_artifact', 'evaluate_output', 'request_human_input'])
  assert.deepEqual(agentRoles.publisher, ['publish_artifact', 'request_approval'])
  const expected =
    'coordinator planner researcher analyst reviewer worker memory_manager domain_expert connector_specific evaluator safety publisher'
  assert.deepEqual(Object.keys(agentRoles), expected.split(' '))
})
