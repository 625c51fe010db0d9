import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { afterEnd, canMove, defineMachine, moves, statesOf } from './machine.ts'
import {
  canReach,
  differingPairs,
  endless,
  exitsFromTerminal,
  isEnd,
  reachableFrom,
  sqlCheckList,
  unreachable,
} from './machine-graph.ts'
import { allMachines } from './machines/index.ts'

const lamp = defineMachine({
  name: 'lamp',
  title: 'A lamp.',
  states: {
    off: 'pending',
    on: 'running',
    broken: 'terminal',
    lost: 'paused',
    "won't": 'paused',
    repaired: 'terminal',
  },
  initial: 'off',
  moves: [
    ...moves('off', 'on', ['x'], []),
    ...moves('on', ['off', 'broken'], ['x'], []),
    ...afterEnd(moves('broken', 'repaired', ['x'], [])),
    ...moves('lost', "won't", ['x'], []),
    ...moves("won't", 'lost', ['x'], []),
    ...moves('repaired', 'on', ['x'], []),
  ],
  lock: 'version',
  byFact: [{ state: 'on', column: 'glued', is: 'true', type: 'terminal' }],
})

describe('machine graph', () => {
  test('unreachable names the states no row can be in', () => {
    assert.deepEqual(unreachable(lamp), ['lost', "won't"])
  })

  test('exitsFromTerminal names undeclared exits only', () => {
    assert.deepEqual(
      exitsFromTerminal(lamp).map((move) => `${move.from} → ${move.to}`),
      ['repaired → on'],
    )
  })

  test('endless names the states from which no end can be reached', () => {
    assert.deepEqual(endless(lamp), ['lost', "won't"])
    assert.equal(isEnd(lamp, 'on'), true)
    assert.equal(isEnd(lamp, 'off'), false)
  })

  test('canReach follows paths, with or without decisions after the end, and ends where the facts end the row', () => {
    assert.equal(canReach(lamp, 'off', 'repaired'), true)
    assert.equal(canReach(lamp, 'off', 'repaired', { afterEnd: false }), false)
    assert.equal(canReach(lamp, 'on', 'broken', { facts: { glued: true } }), false)
    assert.equal(canReach(lamp, 'on', 'on', { facts: { glued: true } }), true)
    assert.equal(canReach(lamp, 'nowhere', 'off'), false)
    assert.equal(canReach(lamp, 'off', 'nowhere'), false)
    // An undeclared exit from a terminal state is no path.
    assert.equal(canReach(lamp, 'repaired', 'on'), false)
  })

  test('reachability is reflexive and transitive, and every move is a path, on every machine', () => {
    fc.assert(
      fc.property(fc.constantFrom(...allMachines), fc.nat(), fc.nat(), fc.nat(), (machine, i, j, k) => {
        const states = statesOf(machine)
        const [a, b, c] = [i, j, k].map((n) => states[n % states.length] ?? '') as [string, string, string]
        assert.ok(canReach(machine, a, a))
        if (canMove(machine, a, b)) assert.ok(canReach(machine, a, b))
        if (canReach(machine, a, b) && canReach(machine, b, c)) assert.ok(canReach(machine, a, c))
        const alone = reachableFrom(machine, a, { afterEnd: false })
        assert.ok([...alone].every((state) => canReach(machine, a, state)))
      }),
    )
  })

  test('sqlCheckList quotes for SQL', () => {
    assert.equal(sqlCheckList(lamp), "'off', 'on', 'broken', 'lost', 'won''t', 'repaired'")
  })

  test('differingPairs names a pair too many, a pair too few, and a state only one side knows', () => {
    const legal = {
      off: ['on'],
      on: ['off', 'broken'],
      broken: ['repaired'],
      lost: ["won't"],
      "won't": ['lost'],
      repaired: ['on'],
    }
    assert.deepEqual(differingPairs(lamp, legal), [])
    assert.deepEqual(differingPairs(lamp, { ...legal, on: ['off'] }), ['on → broken'])
    assert.deepEqual(differingPairs(lamp, { ...legal, off: ['on', 'broken'] }), ['off → broken'])
    assert.deepEqual(differingPairs(lamp, { ...legal, dim: [] }), ['dim'])
    const { lost: _lost, "won't": _wont, ...rest } = legal
    assert.deepEqual(differingPairs(lamp, rest), ['lost', "won't", "lost → won't", "won't → lost"])
  })
})
