import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findMove } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { registryBindingMachine as binding, registryEntityMachine as entity } from './registry.ts'

test('[REG-28] entities begin active and may be archived; bindings begin active and may be disabled or superseded', () => {
  assert.equal(entity.initial, 'active')
  assert.deepEqual(differingPairs(entity, { active: ['archived'], archived: ['active'] }), [])
  assert.equal(binding.initial, 'active')
  const legal = { active: ['disabled', 'superseded'], disabled: ['active', 'superseded'], superseded: [] }
  assert.deepEqual(differingPairs(binding, legal), [])
})

test('registry binding: a rollback wakes a disabled binding and says so', () => {
  assert.deepEqual(findMove(binding, 'active', 'disabled')?.emits, ['binding_disabled'])
  assert.deepEqual(findMove(binding, 'disabled', 'active')?.emits, ['binding_rolled_back'])
})
