import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideMove } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { memoryRecordMachine as memory } from './memory.ts'

test('memory record: four statuses, all 4 × 4 pairs', () => {
  const legal = {
    active: ['superseded', 'expired', 'deleted'],
    superseded: ['deleted'],
    expired: ['deleted'],
    deleted: [],
  }
  assert.deepEqual(differingPairs(memory, legal), [])
})

test('memory record: what is superseded or expired can still be erased, and never comes back', () => {
  for (const from of ['superseded', 'expired']) {
    assert.equal(decideMove(memory, from, 'deleted', 'user').ok, true)
    assert.equal(decideMove(memory, from, 'active', 'operator').ok, false)
  }
})
