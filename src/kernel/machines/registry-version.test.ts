import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findMove, typeOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { registryVersionMachine as version } from './registry.ts'

test('[REG-24] registry version: eight statuses, all 8 × 8 pairs, 12 of them legal; retired and rejected are final', () => {
  const legal = {
    draft: ['validated', 'rejected'],
    validated: ['draft', 'pending_approval', 'published'],
    pending_approval: ['approved', 'rejected'],
    approved: ['published'],
    published: ['deprecated', 'retired'],
    deprecated: ['retired', 'published'],
    retired: [],
    rejected: [],
  }
  assert.deepEqual(differingPairs(version, legal), [])
  assert.equal(version.moves.length, 12)
  assert.equal(typeOf(version, 'retired'), 'terminal')
  assert.equal(typeOf(version, 'rejected'), 'terminal')
})

test('registry version: each move has its lifecycle event', () => {
  const emits = (from: string, to: string) => findMove(version, from, to)?.emits
  assert.deepEqual(emits('draft', 'validated'), ['version_validated'])
  assert.deepEqual(emits('validated', 'pending_approval'), ['approval_requested'])
  assert.deepEqual(emits('pending_approval', 'approved'), ['version_approved'])
  assert.deepEqual(emits('pending_approval', 'rejected'), ['version_rejected'])
  assert.deepEqual(emits('approved', 'published'), ['version_published'])
  assert.deepEqual(emits('published', 'deprecated'), ['version_deprecated'])
  assert.deepEqual(emits('deprecated', 'retired'), ['version_retired'])
  assert.deepEqual(emits('published', 'retired'), ['emergency_retired'])
})

test('registry version: the first publication keeps its time when a deprecation is taken back', () => {
  assert.deepEqual(
    version.stamps?.find((stamp) => stamp.column === 'published_at'),
    { column: 'published_at', on: ['published'], once: true },
  )
  assert.deepEqual(
    version.clears?.find((clear) => clear.column === 'deprecated_at'),
    { column: 'deprecated_at', on: ['published'] },
  )
})
