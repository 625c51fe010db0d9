import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideMove, statesOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { colonyProposalMachine as proposal } from './colony.ts'

test('[COL-086] colony proposal: five states, all 5 × 5 pairs, 4 of them legal, all four ends final', () => {
  const legal = {
    pending: ['approved', 'rejected', 'expired', 'superseded'],
    approved: [],
    rejected: [],
    expired: [],
    superseded: [],
  }
  assert.deepEqual(differingPairs(proposal, legal), [])
  assert.equal(proposal.moves.length, 4)
  assert.equal(statesOf(proposal).filter((state) => proposal.states[state] === 'terminal').length, 4)
})

test('colony proposal: the runtime that made it never resolves it', () => {
  for (const to of ['approved', 'rejected', 'expired', 'superseded']) {
    assert.equal(decideMove(proposal, 'pending', to, 'runtime').ok, false)
  }
})
