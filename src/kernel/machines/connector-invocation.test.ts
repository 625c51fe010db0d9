import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differingPairs } from '../machine-graph.ts'
import { connectorInvocationMachine as invocation } from './connector-invocation.ts'

test('connector invocation: started, then succeeded or failed; all 3 × 3 pairs', () => {
  assert.deepEqual(differingPairs(invocation, { started: ['succeeded', 'failed'], succeeded: [], failed: [] }), [])
})

test('connector invocation: the call is announced with its outcome', () => {
  for (const move of invocation.moves) assert.deepEqual(move.emits, ['connector_called'])
  assert.deepEqual(invocation.stamps, [{ column: 'completed_at', on: ['succeeded', 'failed'] }])
})
