import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differingPairs } from '../machine-graph.ts'
import { agentInvocationMachine as invocation } from './agent.ts'

test('agent invocation: created by default, six statuses, all 6 × 6 pairs', () => {
  const legal = {
    created: ['running', 'failed', 'cancelled', 'expired'],
    running: ['succeeded', 'failed', 'cancelled', 'expired'],
    succeeded: [],
    failed: [],
    cancelled: [],
    expired: [],
  }
  assert.deepEqual(differingPairs(invocation, legal), [])
  assert.equal(invocation.initial, 'created')
  assert.deepEqual(invocation.creation?.emits, ['subagent_spawned'])
})
