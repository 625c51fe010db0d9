import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findMove } from '../machine.ts'
import { differingPairs, sqlCheckList } from '../machine-graph.ts'
import { effectMachine as effect } from './command.ts'

test('[EFF-03] effect: planned, executing, then succeeded or failed; all 4 × 4 pairs, no other value', () => {
  const legal = { planned: ['executing'], executing: ['succeeded', 'failed'], succeeded: [], failed: [] }
  assert.deepEqual(differingPairs(effect, legal), [])
  assert.equal(sqlCheckList(effect), "'planned', 'executing', 'succeeded', 'failed'")
  assert.equal(effect.initial, 'planned')
})

test('effect: its events, and the time of its outcome', () => {
  assert.deepEqual(effect.creation?.emits, ['effect_planned'])
  assert.deepEqual(findMove(effect, 'planned', 'executing')?.emits, ['status_changed'])
  assert.deepEqual(findMove(effect, 'executing', 'succeeded')?.emits, ['effect_executed'])
  assert.deepEqual(findMove(effect, 'executing', 'failed')?.emits, ['effect_failed'])
  assert.deepEqual(effect.stamps, [{ column: 'completed_at', on: ['succeeded', 'failed'] }])
})
