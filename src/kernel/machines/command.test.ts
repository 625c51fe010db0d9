import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { canMove, decideMove, findMove, statesOf, typeOf } from '../machine.ts'
import { canReach, differingPairs } from '../machine-graph.ts'
import { commandMachine as command } from './command.ts'

// The 43 moves, by hand: 35 of the base table, 4 of cancellation, 4 additions.
const legal = {
  created: ['validated', 'failed', 'cancelled'],
  validated: ['waiting_for_input', 'waiting_for_approval', 'queued', 'running', 'failed', 'cancelled'],
  waiting_for_input: ['validated', 'cancelled', 'expired'],
  waiting_for_approval: ['approved', 'cancelled', 'expired', 'failed', 'waiting_for_input'],
  approved: ['queued', 'running', 'cancelled', 'waiting_for_approval'],
  queued: ['running', 'cancelled', 'failed'],
  running: ['succeeded', 'failed', 'cancelled', 'blocked', 'cancelling'],
  blocked: ['queued', 'running', 'failed', 'cancelled', 'cancelling'],
  succeeded: [],
  failed: ['queued', 'compensating', 'cancelled'],
  cancelled: [],
  expired: [],
  compensating: ['compensated', 'failed'],
  compensated: ['cancelled'],
  cancelling: ['cancelled', 'compensating', 'failed'],
}

const exits = (from: string) => statesOf(command).filter((to) => canMove(command, from, to))
const emits = (from: string, to: string) => findMove(command, from, to)?.emits

describe('command', () => {
  test('[SUP-13] all 15 × 15 pairs: exactly the 43 written here are legal', () => {
    assert.deepEqual(differingPairs(command, legal), [])
    assert.equal(statesOf(command).length, 15)
    assert.equal(command.moves.length, 43)
  })

  test('[ST-01] created goes to validated, failed, cancelled', () => {
    assert.deepEqual(exits('created').sort(), ['cancelled', 'failed', 'validated'])
  })
  test('[ST-02] validated goes to the two waits, queued, running, failed, cancelled', () => {
    const six = ['cancelled', 'failed', 'queued', 'running', 'waiting_for_approval', 'waiting_for_input']
    assert.deepEqual(exits('validated').sort(), six)
  })
  test('[ST-03] waiting_for_input goes to validated, cancelled, expired', () => {
    assert.deepEqual(exits('waiting_for_input').sort(), ['cancelled', 'expired', 'validated'])
  })
  test('[ST-04] waiting_for_approval also goes to waiting_for_input, for requested changes', () => {
    const five = ['approved', 'cancelled', 'expired', 'failed', 'waiting_for_input']
    assert.deepEqual(exits('waiting_for_approval').sort(), five)
  })
  test('[ST-05] approved goes to queued, running, cancelled, and back when people are asked again', () => {
    assert.deepEqual(exits('approved').sort(), ['cancelled', 'queued', 'running', 'waiting_for_approval'])
  })
  test('[ST-06] queued goes to running, cancelled, failed', () => {
    assert.deepEqual(exits('queued').sort(), ['cancelled', 'failed', 'running'])
  })
  test('[ST-07] running goes to succeeded, failed, cancelled, blocked, cancelling; the direct cancel is the operator’s', () => {
    assert.deepEqual(exits('running').sort(), ['blocked', 'cancelled', 'cancelling', 'failed', 'succeeded'])
    assert.deepEqual(findMove(command, 'running', 'cancelled')?.by, ['operator'])
    assert.deepEqual(findMove(command, 'running', 'cancelling')?.by, ['user', 'operator', 'system'])
  })
  test('[ST-08] blocked goes to queued, running, failed, cancelled, cancelling', () => {
    assert.deepEqual(exits('blocked').sort(), ['cancelled', 'cancelling', 'failed', 'queued', 'running'])
  })
  test('[ST-09] failed ends a run but can be left: queued, compensating, cancelled stay open as decisions', () => {
    assert.deepEqual(exits('failed').sort(), ['cancelled', 'compensating', 'queued'])
    assert.equal(typeOf(command, 'failed'), 'terminal')
    for (const to of exits('failed')) assert.equal(findMove(command, 'failed', to)?.afterEnd, true)
    assert.equal(decideMove(command, 'failed', 'queued', 'operator').ok, true)
    assert.equal(decideMove(command, 'failed', 'queued', 'worker').ok, false)
  })
  test('[ST-10] cancelling goes to cancelled, compensating, failed', () => {
    assert.deepEqual(exits('cancelling').sort(), ['cancelled', 'compensating', 'failed'])
  })
  test('[ST-11] compensating goes to compensated, failed', () => {
    assert.deepEqual(exits('compensating').sort(), ['compensated', 'failed'])
  })
  test('[ST-12] compensated moves to cancelled only when a cancellation was requested', () => {
    assert.deepEqual(exits('compensated'), ['cancelled'])
    const asked = { cancellation_requested: true }
    const notAsked = { cancellation_requested: false }
    assert.equal(typeOf(command, 'compensated', asked), 'running')
    assert.equal(typeOf(command, 'compensated', notAsked), 'terminal')
    assert.equal(decideMove(command, 'compensated', 'cancelled', 'worker', asked).ok, true)
    const refused = decideMove(command, 'compensated', 'cancelled', 'worker', notAsked)
    assert.equal(refused.ok ? undefined : refused.code, 'machine.move.illegal')
  })
  test('[ST-13] succeeded, cancelled and expired have no exits', () => {
    for (const end of ['succeeded', 'cancelled', 'expired'] as const) {
      assert.deepEqual(exits(end), [])
      assert.equal(typeOf(command, end), 'terminal')
    }
  })

  test('every move says status_changed first, so that its history has no hole', () => {
    for (const move of command.moves) assert.equal(move.emits[0], 'status_changed', `${move.from} → ${move.to}`)
  })
  test('cancelling, compensating and drift have their own events', () => {
    assert.deepEqual(emits('running', 'cancelling'), ['status_changed', 'cancellation_requested'])
    assert.deepEqual(emits('queued', 'cancelled'), ['status_changed', 'cancellation_requested'])
    assert.deepEqual(emits('cancelling', 'cancelled'), ['status_changed'])
    assert.deepEqual(emits('cancelling', 'compensating'), ['status_changed', 'compensation_started'])
    assert.deepEqual(emits('failed', 'compensating'), ['status_changed', 'compensation_started'])
    assert.deepEqual(emits('compensating', 'compensated'), ['status_changed', 'compensation_completed'])
    assert.deepEqual(emits('compensating', 'failed'), ['status_changed', 'compensation_drift'])
  })
  test('completed_at is set in the five end states and emptied by what takes the command up again', () => {
    const ends = ['succeeded', 'failed', 'cancelled', 'expired', 'compensated']
    assert.deepEqual(command.stamps, [{ column: 'completed_at', on: ends }])
    assert.deepEqual(command.clears, [{ column: 'completed_at', on: ['queued', 'compensating'] }])
    // A move from an end state to a state that is not an end must clear the column.
    const left = command.moves
      .filter((move) => ends.includes(move.from) && !ends.includes(move.to))
      .map((move) => move.to)
    assert.deepEqual(left.sort(), ['compensating', 'queued'])
  })
  test('[DEP-08] a required status is unreachable when the table has no path; failed only while no retry is pending', () => {
    assert.equal(canReach(command, 'running', 'succeeded'), true)
    assert.equal(canReach(command, 'cancelled', 'succeeded'), false)
    assert.equal(canReach(command, 'compensating', 'succeeded', { afterEnd: false }), false)
    assert.equal(canReach(command, 'failed', 'succeeded', { afterEnd: true }), true)
    assert.equal(canReach(command, 'failed', 'succeeded', { afterEnd: false }), false)
    assert.equal(canReach(command, 'failed', 'failed', { afterEnd: false }), true)
    assert.equal(canReach(command, 'compensated', 'cancelled', { facts: { cancellation_requested: false } }), false)
  })
})
