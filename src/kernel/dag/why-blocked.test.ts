/** The answer names the blocking tasks and the rule, in words a person reads and in facts a program reads. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type GraphNode, validateGraph } from './graph.ts'
import { type NodeState, whyBlocked } from './readiness.ts'

const nodes: GraphNode[] = [
  { id: 't1', name: 'Research', sequence: 1, dependsOn: [] },
  { id: 't2', name: 'Analyse', sequence: 2, dependsOn: [] },
  { id: 't3', name: 'Write', sequence: 3, dependsOn: ['t2', 't1'] },
  { id: 't4', name: 'Publish', sequence: 4, dependsOn: ['t3'], rule: 'none_failed' },
]

function ask(id: string, states: Record<string, NodeState>) {
  const graph = validateGraph(nodes)
  assert.ok(graph.ok)
  const answer = whyBlocked(graph.value, new Map(Object.entries(states)), id)
  assert.ok(answer.ok)
  return answer.value
}

test('[MIS-234] a waiting task names what it waits for and its rule', () => {
  const answer = ask('t3', { t1: 'active' })
  assert.equal(answer.readiness, 'waiting')
  assert.equal(answer.rule, 'all_success')
  assert.deepEqual(answer.blockers, [
    { id: 't1', name: 'Research', state: 'active' },
    { id: 't2', name: 'Analyse', state: 'pending' },
  ])
  assert.equal(
    answer.words,
    'Write waits for Research (active), Analyse (pending) (all_success: all of its dependencies must complete).',
  )
})

test('[MIS-234] a task that can never start names what broke its rule', () => {
  const answer = ask('t3', { t1: 'completed', t2: 'failed' })
  assert.equal(answer.readiness, 'unreachable')
  assert.deepEqual(answer.blockers, [{ id: 't2', name: 'Analyse', state: 'failed' }])
  assert.match(answer.words, /^Write can never start because of Analyse \(failed\)/)
  assert.match(ask('t3', { t2: 'failed', t3: 'skipped' }).words, /^Write was skipped because of Analyse \(failed\)/)
})

test('[MIS-234] a task that is not blocked has no blockers', () => {
  assert.match(ask('t1', {}).words, /^Research is not blocked: it can start/)
  assert.match(ask('t3', { t3: 'active', t1: 'completed', t2: 'completed' }).words, /released/)
  const cancelled = ask('t4', { t4: 'cancelled' })
  assert.deepEqual(cancelled.blockers, [])
  assert.match(cancelled.words, /^Publish has ended as cancelled \(none_failed/)
})

test('more than five blockers are counted, not listed', () => {
  const wide = [...Array(8).keys()].map((at) => ({ id: `n${at}`, sequence: at, dependsOn: [] as string[] }))
  const graph = validateGraph([...wide, { id: 'join', sequence: 9, dependsOn: wide.map(({ id }) => id) }])
  assert.ok(graph.ok)
  const answer = whyBlocked(graph.value, new Map(), 'join')
  assert.ok(answer.ok)
  assert.equal(answer.value.blockers.length, 8)
  assert.match(answer.value.words, /n4 \(pending\) and 3 more/)
})

test('an unknown task is refused with the nearest name', () => {
  const graph = validateGraph([{ id: 'research', sequence: 0, dependsOn: [] }])
  assert.ok(graph.ok)
  const answer = whyBlocked(graph.value, new Map(), 'reserch')
  assert.ok(!answer.ok)
  assert.equal(answer.code, 'dag_unknown_ref')
  assert.equal(answer.hint, 'Did you mean "research"?')
})
