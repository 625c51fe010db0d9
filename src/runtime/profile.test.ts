import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideCapabilities } from './profile.ts'
import { decideQueueNames, semanticQueues } from './queues.ts'
import { referenceProfile } from '#test/reference-runtime/index'

test('[RUN-04] all gaps are named at once, with who needs what; a grade may be demanded', () => {
  const refused = decideCapabilities(referenceProfile, [
    { capability: 'signals', by: 'ask_a_person' },
    { capability: 'queues', by: 'send_mail' },
    { capability: 'schedules', by: 'nightly_report', grade: 'native' },
    { capability: 'saga_compensation_native', by: 'wire_money' },
  ])
  assert.ok(!refused.ok)
  assert.equal(refused.code, 'runtime.capability.missing')
  const gaps = [
    'ask_a_person needs signals',
    'nightly_report needs schedules native, which is composed',
    'wire_money needs saga_compensation_native',
  ]
  for (const gap of gaps) assert.ok(refused.reason.includes(gap), refused.reason)
  assert.ok(!refused.reason.includes('send_mail'))
  assert.equal(decideCapabilities(referenceProfile, []).ok, true)
})

test('[PLN-12] the names of the queues', () => {
  assert.deepEqual(Object.keys(semanticQueues).toSorted(), [
    'agent_runs',
    'compensations',
    'concord_default',
    'connector_calls',
    'notifications',
    'registry_lifecycle',
    'scheduled_maintenance',
    'swarm_children',
  ])
})

test('[PLN-13] a plan on an unknown queue is refused, with the nearest name', () => {
  const defined = new Set(Object.keys(semanticQueues))
  assert.equal(decideQueueNames(defined, ['agent_runs', 'agent_runs']).ok, true)
  const refused = decideQueueNames(defined, ['agent_run', 'somewhere_else'])
  assert.ok(!refused.ok)
  assert.match(refused.reason, /"agent_run" \(did you mean "agent_runs"\?\), "somewhere_else"/)
})
