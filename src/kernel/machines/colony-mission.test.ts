import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { canMove, statesOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { colonyMissionMachine as mission } from './colony.ts'

const exits = (from: string) => statesOf(mission).filter((to) => canMove(mission, from, to))

describe('colony mission', () => {
  test('[COL-073] the eleven states', () => {
    const eleven =
      'accepted planning packaging retrieving executing aggregating reviewing awaiting_approval completed failed rejected'
    assert.equal(statesOf(mission).join(' '), eleven)
  })
  test('[COL-074] accepted → planning, failed', () => {
    assert.deepEqual(exits('accepted').sort(), ['failed', 'planning'])
  })
  test('[COL-075] planning → packaging, failed, rejected', () => {
    assert.deepEqual(exits('planning').sort(), ['failed', 'packaging', 'rejected'])
  })
  test('[COL-076] packaging → retrieving, executing, failed, rejected', () => {
    assert.deepEqual(exits('packaging').sort(), ['executing', 'failed', 'rejected', 'retrieving'])
  })
  test('[COL-077] retrieving → executing, failed, rejected', () => {
    assert.deepEqual(exits('retrieving').sort(), ['executing', 'failed', 'rejected'])
  })
  test('[COL-078] executing → aggregating, failed, rejected', () => {
    assert.deepEqual(exits('executing').sort(), ['aggregating', 'failed', 'rejected'])
  })
  test('[COL-079] aggregating → reviewing, failed, rejected', () => {
    assert.deepEqual(exits('aggregating').sort(), ['failed', 'rejected', 'reviewing'])
  })
  test('[COL-080] reviewing → completed, awaiting_approval, failed, rejected', () => {
    assert.deepEqual(exits('reviewing').sort(), ['awaiting_approval', 'completed', 'failed', 'rejected'])
  })
  test('[COL-081] awaiting_approval → completed, rejected, failed', () => {
    assert.deepEqual(exits('awaiting_approval').sort(), ['completed', 'failed', 'rejected'])
  })
  test('[COL-082] all 11 × 11 pairs: 25 are legal; completed, failed and rejected are terminal', () => {
    const legal = {
      accepted: ['planning', 'failed'],
      planning: ['packaging', 'failed', 'rejected'],
      packaging: ['retrieving', 'executing', 'failed', 'rejected'],
      retrieving: ['executing', 'failed', 'rejected'],
      executing: ['aggregating', 'failed', 'rejected'],
      aggregating: ['reviewing', 'failed', 'rejected'],
      reviewing: ['completed', 'awaiting_approval', 'failed', 'rejected'],
      awaiting_approval: ['completed', 'rejected', 'failed'],
      completed: [],
      failed: [],
      rejected: [],
    }
    assert.deepEqual(differingPairs(mission, legal), [])
    assert.equal(mission.moves.length, 25)
    const terminal = statesOf(mission).filter((state) => mission.states[state] === 'terminal')
    assert.deepEqual(terminal.sort(), ['completed', 'failed', 'rejected'])
  })
  test('each move appends an event, and every end its time', () => {
    for (const move of mission.moves) assert.deepEqual(move.emits, ['mission_status_changed'])
    assert.deepEqual(mission.stamps, [{ column: 'completed_at', on: ['completed', 'failed', 'rejected'] }])
  })
})
