import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideMove } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { memoryCandidateMachine as candidate } from './memory.ts'

test('memory candidate: five statuses, all 5 × 5 pairs', () => {
  const legal = {
    proposed: ['accepted', 'awaiting_approval', 'rejected', 'expired'],
    awaiting_approval: ['accepted', 'rejected', 'expired'],
    accepted: [],
    rejected: [],
    expired: [],
  }
  assert.deepEqual(differingPairs(candidate, legal), [])
})

test('memory candidate: its proposer does not accept it', () => {
  assert.equal(decideMove(candidate, 'proposed', 'accepted', 'system').ok, true)
  for (const actor of ['user', 'worker', 'agent']) {
    assert.equal(decideMove(candidate, 'proposed', 'accepted', actor).ok, false)
    assert.equal(decideMove(candidate, 'awaiting_approval', 'accepted', actor).ok, false)
  }
})
