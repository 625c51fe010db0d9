/** The refusals of a graph, word by word, and that size alone breaks nothing. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type GraphNode, validateGraph } from './graph.ts'

/** `{ B: 'A', C: 'A B' }`: C waits for A and B; the sequence is the place in the list. */
function nodes(edges: Record<string, string>): GraphNode[] {
  return Object.entries(edges).map(([id, before], sequence) => ({
    id,
    sequence,
    dependsOn: before.split(' ').filter(Boolean),
  }))
}

function refusalOf(input: readonly GraphNode[]) {
  const decision = validateGraph(input)
  assert.ok(!decision.ok, 'the graph was accepted')
  return decision
}

function chain(length: number): GraphNode[] {
  return Array.from({ length }, (_, at) => ({ id: `n${at}`, sequence: at, dependsOn: at === 0 ? [] : [`n${at - 1}`] }))
}

describe('refusals', () => {
  test('a cycle is refused with its path', () => {
    const refusal = refusalOf(nodes({ A: 'C', B: 'A', C: 'B' }))
    assert.equal(refusal.code, 'dag_cycle')
    assert.match(refusal.reason, /A → B → C → A\.$/)
    assert.deepEqual(refusal.facts, { cycle: ['A', 'B', 'C'], length: 3 })
  })

  test('the shortest of several cycles is shown, without what only leads to it or from it', () => {
    const refusal = refusalOf(nodes({ start: '', A: 'start D', B: 'A', C: 'B', D: 'C X', X: 'D', end: 'X' }))
    assert.match(refusal.reason, /: D → X → D\.$/)
  })

  test('an unknown name is refused with the nearest one', () => {
    const refusal = refusalOf(nodes({ research: '', write: 'reserch' }))
    assert.equal(refusal.code, 'dag_unknown_ref')
    assert.equal(refusal.reason, '"write" depends on "reserch", which does not exist.')
    assert.equal(refusal.hint, 'Did you mean "research"?')
    assert.equal(refusal.path, 'write.depends_on')
    assert.deepEqual(refusal.facts, { unknown: [{ node: 'write', ref: 'reserch' }], count: 1, nearest: 'research' })
  })

  test('all unknown names are counted, and a far name gets no hint', () => {
    const refusal = refusalOf(nodes({ A: 'zebra', B: 'A giraffe' }))
    assert.equal(refusal.hint, undefined)
    assert.equal(refusal.facts?.['count'], 2)
  })

  test('a self edge and an edge given twice are refused', () => {
    assert.equal(refusalOf(nodes({ A: 'A' })).code, 'dag_edge')
    assert.match(refusalOf(nodes({ A: 'A' })).reason, /"A" depends on itself/)
    assert.equal(refusalOf(nodes({ A: '', B: 'A A' })).code, 'dag_edge')
    assert.match(refusalOf(nodes({ A: '', B: 'A A' })).reason, /"B" depends on "A" twice/)
  })

  test('two nodes with one name are refused', () => {
    const refusal = refusalOf([...nodes({ A: '' }), ...nodes({ A: '' })])
    assert.equal(refusal.code, 'dag.node.duplicate')
    assert.match(refusal.reason, /"A"/)
  })

  test('100,001 nodes are refused, 100,000 are not', () => {
    assert.equal(refusalOf(chain(100_001)).code, 'dag_size')
    assert.equal(validateGraph(chain(100_000)).ok, true)
  })

  test('a name is echoed with at most 64 characters and nothing invisible in it', () => {
    const long = 'x'.repeat(500)
    assert.ok(refusalOf([{ id: long, sequence: 0, dependsOn: [long] }]).reason.length < 120)
    assert.ok(!refusalOf(nodes({ A: 'B\u202e', 'B\u202e': 'A' })).reason.includes('\u202e'))
  })
})

describe('size', () => {
  test('a chain of 100,000 is sorted without deep recursion', () => {
    const decision = validateGraph(chain(100_000).toReversed())
    assert.ok(decision.ok)
    assert.deepEqual(decision.value.order.slice(0, 3), [0, 1, 2])
    assert.equal(decision.value.order.length, 100_000)
  })

  test('a ring of 100,000 is refused with a message of bounded length', () => {
    const ring = chain(100_000).map((node) => (node.id === 'n0' ? { ...node, dependsOn: ['n99999'] } : node))
    const refusal = refusalOf(ring)
    assert.equal(refusal.code, 'dag_cycle')
    assert.equal(refusal.facts?.['length'], 100_000)
    assert.match(refusal.reason, /n0 → n1 → .* → … 99988 more → n0\.$/)
    assert.ok(refusal.reason.length < 300)
  })
})
