/** The four trigger rules against tables written out by hand. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type GraphNode, validateGraph } from './graph.ts'
import {
  decideCounterStep,
  decideReadiness,
  endStates,
  isSettled,
  isTriggerRule,
  listReady,
  type NodeState,
  remainingOf,
  type TriggerRule,
  triggerRules,
  type Upstream,
} from './readiness.ts'

test('[MIS-026] there are four trigger rules, the first is the default', () => {
  assert.deepEqual([...triggerRules], ['all_success', 'all_done', 'none_failed', 'always'])
  assert.equal(isTriggerRule('none_failed'), true)
  assert.equal(isTriggerRule('one_success'), false)
})

const upstream = (states: string): Upstream[] =>
  states
    .split(' ')
    .filter(Boolean)
    .map((state, at) => ({ id: `u${at}`, state: state as NodeState }))

/** Rule, upstream states, verdict, and the ids it must name. */
const cases: [string, TriggerRule, string, string, string[]][] = [
  ['MIS-226', 'all_success', 'completed', 'ready', []],
  ['MIS-226', 'all_success', 'completed completed', 'ready', []],
  ['MIS-226', 'all_success', 'completed active', 'waiting', ['u1']],
  ['MIS-226', 'all_success', 'pending active', 'waiting', ['u0', 'u1']],
  ['MIS-226', 'all_success', 'completed failed', 'unreachable', ['u1']],
  ['MIS-226', 'all_success', 'active cancelled', 'unreachable', ['u1']],
  ['MIS-226', 'all_success', 'skipped pending failed', 'unreachable', ['u0', 'u2']],
  ['MIS-227', 'all_done', 'completed failed cancelled skipped', 'ready', []],
  ['MIS-227', 'all_done', 'failed', 'ready', []],
  ['MIS-227', 'all_done', 'failed active', 'waiting', ['u1']],
  ['MIS-227', 'all_done', 'pending', 'waiting', ['u0']],
  ['MIS-228', 'none_failed', 'completed skipped cancelled', 'ready', []],
  ['MIS-228', 'none_failed', 'skipped', 'ready', []],
  ['MIS-228', 'none_failed', 'skipped active', 'waiting', ['u1']],
  ['MIS-228', 'none_failed', 'failed', 'unreachable', ['u0']],
  ['MIS-228', 'none_failed', 'active failed', 'unreachable', ['u1']],
  ['MIS-229', 'always', 'pending active', 'ready', []],
  ['MIS-229', 'always', 'failed cancelled skipped completed', 'ready', []],
  ['MIS-230', 'all_success', '', 'ready', []],
  ['MIS-230', 'all_done', '', 'ready', []],
  ['MIS-230', 'none_failed', '', 'ready', []],
  ['MIS-230', 'always', '', 'ready', []],
]

for (const [row, rule, states, kind, named] of cases)
  test(`[${row}] ${rule} with ${states === '' ? 'no dependencies' : states} is ${kind}`, () => {
    const readiness = decideReadiness(rule, upstream(states))
    assert.equal(readiness.kind, kind)
    const ids = readiness.kind === 'waiting' ? readiness.on : readiness.kind === 'unreachable' ? readiness.because : []
    assert.deepEqual(
      ids.map(({ id }) => id),
      named,
    )
    assert.notEqual(readiness.reason, '')
  })

describe('counters', () => {
  test('what one upstream end does to a pending node, rule by rule', () => {
    const table = Object.fromEntries(
      triggerRules.map((rule) => [rule, endStates.map((end) => decideCounterStep(rule, end))]),
    )
    assert.deepEqual(endStates, ['completed', 'failed', 'cancelled', 'skipped'])
    assert.deepEqual(table, {
      all_success: ['decrement', 'skip', 'skip', 'skip'],
      all_done: ['decrement', 'decrement', 'decrement', 'decrement'],
      none_failed: ['decrement', 'skip', 'decrement', 'decrement'],
      always: ['nothing', 'nothing', 'nothing', 'nothing'],
    })
  })

  test('a node starts at the number of its dependencies, an always node at zero', () => {
    const states = (text: string) => upstream(text).map(({ state }) => state)
    for (const rule of ['all_success', 'all_done', 'none_failed'] as const)
      assert.equal(remainingOf(rule, states('pending pending active')), 3)
    assert.equal(remainingOf('always', states('pending pending active')), 0)
    assert.equal(remainingOf('all_success', states('completed pending')), 1)
    assert.equal(remainingOf('all_success', states('completed failed')), 1, 'a broken rule never counts down to zero')
    assert.equal(remainingOf('all_done', states('completed failed')), 0)
  })
})

test('the ready set is in stable order and leaves out what has been released', () => {
  const nodes: GraphNode[] = [
    { id: 'late', sequence: 9, dependsOn: [] },
    { id: 'b', sequence: 1, dependsOn: [] },
    { id: 'a', sequence: 1, dependsOn: [] },
    { id: 'after', sequence: 0, dependsOn: ['a'] },
    { id: 'cleanup', sequence: 5, dependsOn: ['a'], rule: 'always' },
  ]
  const graph = validateGraph(nodes)
  assert.ok(graph.ok)
  const ready = (states: [string, NodeState][]) => listReady(graph.value, new Map(states)).map((node) => node.id)
  assert.deepEqual(ready([]), ['a', 'b', 'cleanup', 'late'])
  assert.deepEqual(
    ready([
      ['a', 'active'],
      ['late', 'completed'],
    ]),
    ['b', 'cleanup'],
  )
  assert.deepEqual(ready([['a', 'completed']]), ['after', 'b', 'cleanup', 'late'])
  assert.equal(isSettled(graph.value, new Map()), false)
  assert.equal(isSettled(graph.value, new Map(nodes.map((node) => [node.id, 'skipped'] as const))), true)
})
