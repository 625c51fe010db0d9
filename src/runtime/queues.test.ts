import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideQueueNames, semanticQueues } from './queues.ts'

test('[PLN-12] the names of the queues', () => {
  assert.deepEqual(Object.keys(semanticQueues).toSorted(), [
    'agent_runs',
    'compensations',
    'concord_default',
    'connector_calls',
    'flow_tasks',
    'missions',
    'notifications',
    'registry_lifecycle',
    'scheduled_maintenance',
    'swarm_children',
  ])
})

test('[PLN-13] an unknown queue in a plan is refused with the nearest name', () => {
  const defined = new Set(Object.keys(semanticQueues))
  assert.equal(decideQueueNames(defined, ['agent_runs', 'agent_runs']).ok, true)
  const refused = decideQueueNames(defined, ['agent_run', 'somewhere_else'])
  assert.ok(!refused.ok)
  assert.match(refused.reason, /"agent_run" \(did you mean "agent_runs"\?\), "somewhere_else"/)
})
