import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideMove } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { flowOutboxMachine as outbox } from './flow.ts'

test('flow outbox: four states, all 4 × 4 pairs; a failure or a dead drainer gives the row back', () => {
  const legal = { Pending: ['Processing'], Processing: ['Done', 'Pending', 'Failed'], Done: [], Failed: [] }
  assert.deepEqual(differingPairs(outbox, legal), [])
  assert.equal(outbox.initial, 'Pending')
  assert.equal(decideMove(outbox, 'Processing', 'Pending', 'drainer').ok, true)
  assert.equal(decideMove(outbox, 'Processing', 'Pending', 'reaper').ok, true)
  assert.deepEqual(outbox.stamps, [{ column: 'processed_at', on: ['Done'] }])
})
