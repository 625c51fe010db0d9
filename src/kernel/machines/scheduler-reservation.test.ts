import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideMove, findMove } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { schedulerReservationMachine as reservation } from './scheduler.ts'

test('[SCH-080] reservation: all 3 × 3 pairs, 2 legal; RELEASED and EXPIRED are final', () => {
  assert.deepEqual(differingPairs(reservation, { ACTIVE: ['RELEASED', 'EXPIRED'], RELEASED: [], EXPIRED: [] }), [])
  assert.deepEqual(reservation.states, { ACTIVE: 'running', RELEASED: 'terminal', EXPIRED: 'terminal' })
})

test('[SCH-078] the end of a reservation is ACTIVE → RELEASED, by its holder', () => {
  assert.equal(decideMove(reservation, 'ACTIVE', 'RELEASED', 'holder').ok, true)
  assert.deepEqual(findMove(reservation, 'ACTIVE', 'RELEASED')?.by, ['holder'])
})
