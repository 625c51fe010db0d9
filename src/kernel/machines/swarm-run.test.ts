import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statesOf, typeOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { swarmRunMachine as swarm } from './agent.ts'

test('[ST-21] swarm run: ten states, all 10 × 10 pairs, 21 of them legal', () => {
  const legal = {
    created: ['running', 'failed', 'cancelled', 'expired'],
    running: ['joining', 'waiting_for_approval', 'failed', 'cancelling', 'expired'],
    waiting_for_approval: ['running', 'joining', 'failed', 'cancelling', 'expired'],
    joining: ['succeeded', 'partially_succeeded', 'failed', 'waiting_for_approval', 'cancelling'],
    cancelling: ['cancelled', 'failed'],
    succeeded: [],
    partially_succeeded: [],
    failed: [],
    cancelled: [],
    expired: [],
  }
  assert.deepEqual(differingPairs(swarm, legal), [])
  assert.equal(swarm.moves.length, 21)
  const terminal = statesOf(swarm).filter((state) => typeOf(swarm, state) === 'terminal')
  assert.deepEqual(terminal.sort(), ['cancelled', 'expired', 'failed', 'partially_succeeded', 'succeeded'])
})

test('swarm run: started once, ended once, and the cancel keeps its own time', () => {
  assert.deepEqual(swarm.stamps, [
    { column: 'started_at', on: ['running'], once: true },
    { column: 'completed_at', on: ['succeeded', 'partially_succeeded', 'failed', 'cancelled', 'expired'] },
    { column: 'cancelled_at', on: ['cancelled'] },
  ])
})
