import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differingPairs } from '../machine-graph.ts'
import { registryEvaluationMachine as evaluation } from './registry.ts'

test('registry evaluation: five statuses, all 5 × 5 pairs', () => {
  const legal = {
    pending: ['running', 'error'],
    running: ['passed', 'failed', 'error'],
    passed: [],
    failed: [],
    error: [],
  }
  assert.deepEqual(differingPairs(evaluation, legal), [])
  assert.deepEqual(evaluation.stamps, [{ column: 'completed_at', on: ['passed', 'failed', 'error'] }])
})
