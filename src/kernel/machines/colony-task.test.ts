import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differingPairs } from '../machine-graph.ts'
import { colonyTaskMachine as task } from './colony.ts'

test('[COL-027] colony task: six states, all 6 × 6 pairs, 8 of them legal', () => {
  const legal = {
    pending: ['ready', 'skipped', 'failed'],
    ready: ['running', 'skipped', 'failed'],
    running: ['completed', 'failed'],
    completed: [],
    failed: [],
    skipped: [],
  }
  assert.deepEqual(differingPairs(task, legal), [])
  assert.equal(task.moves.length, 8)
})
