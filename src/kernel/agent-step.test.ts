/** Steps of agents as events: where each part is stored, and that the conversion back returns the step. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { agentActionTypes, agentStepFields, readAgentStep, toAgentStepEvent } from './agent-step.ts'

test('[EVT-09] a step of an agent is stored in the payload under its own names; the type of the event is the action', () => {
  // The names of the requirement, written out: a field that is renamed or moved fails here.
  const said = {
    action_type: 'tool_call',
    action_payload: { destination: 'internal' },
    decision: 'allow',
    observation: 'It was published.',
    output: { artifact_id: 'a' },
    created_command_id: 'c1',
    created_task_run_id: 't1',
    created_artifact_id: 'a1',
    created_memory_id: 'm1',
    created_approval_id: 'p1',
    child_agent_run_id: 'r2',
  } as const
  const columns = {
    agent_run_id: 'r1',
    step_index: 3,
    tool_name: 'publish_report',
    latency_ms: 12,
    token_usage: { in: 5 },
    cost_units: '0.25',
  }
  assert.deepEqual(toAgentStepEvent({ ...said, ...columns }), {
    event_type: 'tool_call',
    purpose: 'agent_step',
    columns,
    payload: said,
  })
  assert.deepEqual(Object.keys(said), [...agentStepFields])
  const silent = toAgentStepEvent({ action_type: 'observe', agent_run_id: 'r1', step_index: 0 })
  assert.deepEqual(silent.payload, { action_type: 'observe' })
  assert.deepEqual(
    Object.values(silent.columns).filter((value) => value === null),
    [null, null, null, null],
  )
})

test('[EVT-09] every part of a step comes back from its event, and other fields of the payload do not', () => {
  const step = fc.record(
    {
      agent_run_id: fc.uuid(),
      step_index: fc.nat(),
      action_type: fc.constantFrom(...agentActionTypes),
      action_payload: fc.jsonValue(),
      decision: fc.string(),
      observation: fc.jsonValue(),
      output: fc.jsonValue(),
      created_command_id: fc.uuid(),
      created_approval_id: fc.option(fc.uuid()),
      child_agent_run_id: fc.uuid(),
      tool_name: fc.string(),
    },
    { requiredKeys: ['agent_run_id', 'step_index', 'action_type'] },
  )
  fc.assert(
    fc.property(step, (made) => {
      const event = toAgentStepEvent(made)
      const noisy = { ...event, payload: { ...event.payload, target_type: 'memory_read', target_id: 'x' } }
      const rest = { tool_name: null, latency_ms: null, token_usage: null, cost_units: null }
      assert.deepEqual(readAgentStep(noisy), { ...rest, ...made })
    }),
  )
})
