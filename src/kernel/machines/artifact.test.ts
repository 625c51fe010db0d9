import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findMove, statesOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { artifactMachine as artifact } from './artifact.ts'

test('[ART-03] artifact: seven statuses, all 7 × 7 pairs', () => {
  const legal = {
    draft: ['ready', 'superseded', 'cancelled'],
    ready: ['published', 'superseded', 'cancelled', 'archived'],
    published: ['unpublished', 'superseded'],
    unpublished: ['published', 'superseded', 'archived'],
    superseded: ['archived'],
    cancelled: ['archived'],
    archived: [],
  }
  assert.deepEqual(differingPairs(artifact, legal), [])
  assert.equal(statesOf(artifact).length, 7)
})

test('artifact: publishing has its own event', () => {
  assert.deepEqual(artifact.creation?.emits, ['artifact_created'])
  assert.deepEqual(findMove(artifact, 'ready', 'published')?.emits, ['artifact_published'])
  assert.deepEqual(findMove(artifact, 'published', 'unpublished')?.emits, ['status_changed'])
})
