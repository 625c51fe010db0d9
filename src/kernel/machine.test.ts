import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  afterEnd,
  canMove,
  columnOfState,
  decideMove,
  defineMachine,
  findMove,
  isState,
  moves,
  nextStates,
  stateOfColumn,
  statesOf,
  typeOf,
} from './machine.ts'
import { commandMachine, missionTaskMachine } from './machines/index.ts'

const door = defineMachine({
  name: 'door',
  title: 'A door.',
  states: { open: 'running', shut: 'paused', locked: 'paused', gone: 'terminal' },
  initial: 'open',
  moves: [
    ...moves(['open', 'locked'], 'shut', ['guest', 'guard'], ['door_shut']),
    ...moves('shut', ['open', 'locked'], ['guard'], ['door_moved'], 'by day'),
    ...moves('shut', 'gone', ['guard'], []),
    ...afterEnd(moves('gone', 'open', ['guard'], [], 'a new door is hung')),
  ],
  lock: 'version',
  byFact: [
    { state: 'locked', column: 'walled_up_at', is: 'set', type: 'terminal' },
    { state: 'shut', column: 'key', is: 'empty', type: 'terminal' },
    { state: 'shut', column: 'jammed', is: 'true', type: 'running' },
    { state: 'open', column: 'usable', is: 'false', type: 'terminal' },
  ],
})

function refusalOf(from: string, to: string, actor: string, facts = {}) {
  const decision = decideMove(door, from, to, actor, facts)
  return decision.ok ? undefined : decision
}

describe('machine', () => {
  test('[ST-14] a pure lookup: unknown states are never legal, and no state goes to itself', () => {
    for (const state of statesOf(commandMachine)) assert.equal(canMove(commandMachine, state, state), false)
    const known = fc.constantFrom<string>(...statesOf(commandMachine))
    const unknown = fc.oneof(fc.constantFrom('', 'CREATED', 'toString', '__proto__', 'created '), fc.string())
    fc.assert(
      fc.property(known, unknown, (state, stranger) => {
        fc.pre(!isState(commandMachine, stranger))
        assert.equal(canMove(commandMachine, state, stranger), false)
        assert.equal(canMove(commandMachine, stranger, state), false)
        assert.equal(canMove(commandMachine, stranger, stranger), false)
      }),
    )
  })

  test('moves is the product of its sources and targets', () => {
    assert.deepEqual(
      moves(['a', 'b'], ['c', 'd'], ['x'], ['y'], 'z').map((move) => `${move.from}${move.to}`),
      ['ac', 'ad', 'bc', 'bd'],
    )
    assert.deepEqual(moves('a', 'b', ['x'], []), [{ from: 'a', to: 'b', by: ['x'], emits: [] }])
    assert.deepEqual(afterEnd(moves('a', 'b', ['x'], [])), [
      { from: 'a', to: 'b', by: ['x'], emits: [], afterEnd: true },
    ])
  })

  test('nextStates and findMove read the table', () => {
    assert.deepEqual(nextStates(door, 'shut'), ['open', 'locked', 'gone'])
    assert.deepEqual(nextStates(door, 'nowhere'), [])
    assert.deepEqual(findMove(door, 'shut', 'locked'), {
      from: 'shut',
      to: 'locked',
      by: ['guard'],
      emits: ['door_moved'],
      when: 'by day',
    })
    assert.equal(findMove(door, 'open', 'gone'), undefined)
  })

  test('typeOf reads the facts where a rule names them, and the name otherwise; an unread fact decides nothing', () => {
    assert.equal(typeOf(door, 'locked'), 'paused')
    assert.equal(typeOf(door, 'locked', { walled_up_at: null }), 'paused')
    assert.equal(typeOf(door, 'locked', { walled_up_at: new Date(0) }), 'terminal')
    assert.equal(typeOf(door, 'shut', { key: undefined }), 'paused')
    assert.equal(typeOf(door, 'shut', { key: null }), 'terminal')
    assert.equal(typeOf(door, 'shut', { jammed: true }), 'running')
    assert.equal(typeOf(door, 'shut', { jammed: 'true' }), 'paused')
    assert.equal(typeOf(door, 'open', { usable: false }), 'terminal')
    assert.equal(typeOf(door, 'open', { usable: true, walled_up_at: new Date(0) }), 'running')
  })

  test('decideMove accepts with the declared move', () => {
    const decision = decideMove(door, 'open', 'shut', 'guest')
    assert.deepEqual(decision, {
      ok: true,
      value: { from: 'open', to: 'shut', by: ['guest', 'guard'], emits: ['door_shut'] },
    })
  })

  test('decideMove refuses an unknown state on either side and lists the known ones', () => {
    for (const refusal of [refusalOf('ajar', 'shut', 'guard'), refusalOf('shut', 'ajar', 'guard')]) {
      assert.equal(refusal?.code, 'machine.state.unknown')
      assert.deepEqual(refusal?.facts?.['allowed'], ['open', 'shut', 'locked', 'gone'])
    }
    // Foreign input is shown cut and with its control characters visible.
    const shown = refusalOf('\u001b[31m'.repeat(99), 'shut', 'guard')?.reason ?? ''
    assert.equal(shown.includes('\u001b'), false)
    assert.ok(shown.includes('\\u001b') && shown.length < 500)
  })

  test('decideMove refuses an undeclared pair and says what could happen next', () => {
    const refusal = refusalOf('open', 'locked', 'guard')
    assert.equal(refusal?.code, 'machine.move.illegal')
    assert.deepEqual(refusal?.facts, { machine: 'door', from: 'open', to: 'locked', next: ['shut'] })
  })

  test('decideMove refuses an actor that the move does not name', () => {
    const refusal = refusalOf('shut', 'open', 'guest')
    assert.equal(refusal?.code, 'machine.actor.not_allowed')
    assert.deepEqual(refusal?.facts?.['by'], ['guard'])
  })

  test('decideMove refuses to move a row that has ended by its facts, but not a decision after the end', () => {
    assert.equal(refusalOf('locked', 'shut', 'guard', { walled_up_at: new Date(0) })?.code, 'machine.move.illegal')
    assert.equal(refusalOf('locked', 'shut', 'guard', { walled_up_at: null }), undefined)
    assert.equal(refusalOf('gone', 'open', 'guard'), undefined)
    assert.equal(refusalOf('gone', 'open', 'guest')?.code, 'machine.actor.not_allowed')
  })

  test('a NULL column is a state only where the machine says so', () => {
    assert.equal(stateOfColumn(door, null), undefined)
    assert.equal(stateOfColumn(door, 'shut'), 'shut')
    assert.equal(stateOfColumn(door, 'ajar'), undefined)
    assert.equal(columnOfState(door, 'shut'), 'shut')
  })

  test('[MIS-024] a new display state is one line of the table: what switches on StateType knows it already', () => {
    const { states } = missionTaskMachine
    const extended = { ...missionTaskMachine, states: { ...states, awaiting_parts: 'paused' as const } }
    // What scheduling code does: it counts by type and never names a state.
    const counted = (machine: typeof extended) =>
      Object.groupBy(statesOf(machine), (state) => typeOf(machine, state)) as Record<string, readonly string[]>
    assert.deepEqual(counted(extended)['paused'], ['verifying', 'awaiting_human', 'awaiting_parts'])
    assert.deepEqual(counted(extended)['terminal'], ['completed', 'failed', 'cancelled', 'skipped'])
    for (const from of statesOf(missionTaskMachine)) {
      assert.deepEqual(nextStates(extended, from), nextStates(missionTaskMachine, from))
    }
  })
})
