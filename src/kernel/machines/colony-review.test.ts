import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differingPairs } from '../machine-graph.ts'
import { colonyReviewMachine as review } from './colony.ts'

test('[COL-085] colony review: four states, all 4 × 4 pairs, 3 of them legal', () => {
  const legal = { not_required: ['pending'], pending: ['approved', 'rejected'], approved: [], rejected: [] }
  assert.deepEqual(differingPairs(review, legal), [])
  assert.equal(review.initial, 'not_required')
})
