/** The step by step sort: the edge cases of the ledger and the order of calls it insists on. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TopologicalSorter } from './graph.ts'

function sorterOf(edges: Record<string, string>): TopologicalSorter {
  const sorter = new TopologicalSorter()
  for (const [sequence, [id, before]] of Object.entries(edges).entries())
    sorter.add({ id, sequence }, before.split(' ').filter(Boolean))
  return sorter
}

describe('edge cases', () => {
  test('[MIS-224] no tasks: nothing is ready and the graph is complete at once', () => {
    const sorter = sorterOf({})
    sorter.prepare()
    assert.deepEqual(sorter.getReady(), [])
    assert.equal(sorter.isActive(), false)
  })

  test('[MIS-224] one task is ready at once', () => {
    const sorter = sorterOf({ A: '' })
    sorter.prepare()
    assert.deepEqual(sorter.getReady(), ['A'])
    assert.equal(sorter.isActive(), true)
    sorter.done('A')
    assert.equal(sorter.isActive(), false)
  })

  test('[MIS-224] without edges all are ready in the first call', () => {
    const sorter = sorterOf({ C: '', A: '', B: '' })
    sorter.prepare()
    assert.deepEqual(sorter.getReady(), ['C', 'A', 'B'])
    assert.deepEqual(sorter.getReady(), [])
  })

  test('[MIS-224] diamond: A, then B and C, then D', () => {
    const sorter = sorterOf({ A: '', B: 'A', C: 'A', D: 'B C' })
    sorter.prepare()
    assert.deepEqual(sorter.getReady(), ['A'])
    sorter.done('A')
    assert.deepEqual(sorter.getReady(), ['B', 'C'])
    sorter.done('C')
    assert.deepEqual(sorter.getReady(), [])
    sorter.done('B')
    assert.deepEqual(sorter.getReady(), ['D'])
    sorter.done('D')
    assert.equal(sorter.isActive(), false)
  })

  test('[MIS-224] a self reference and a cycle of several nodes are caught by prepare', () => {
    assert.throws(() => sorterOf({ A: 'A' }).prepare(), { code: 'dag_edge' })
    assert.throws(() => sorterOf({ A: 'C', B: 'A', C: 'B' }).prepare(), {
      code: 'dag_cycle',
      message: /A → B → C → A/,
    })
  })
})

test('[MIS-223] ties go by sequence number, then by id, whatever was added first', () => {
  const sorter = new TopologicalSorter()
  sorter.add({ id: 'b', sequence: 2 })
  sorter.add({ id: 'z', sequence: 1 })
  sorter.add({ id: 'a', sequence: 2 })
  sorter.prepare()
  assert.deepEqual(sorter.getReady(), ['z', 'a', 'b'])
})

test('[MIS-223] the order of completion does not decide between equals', () => {
  const sorter = sorterOf({ A: '', B: '', X: 'A', Y: 'B' })
  sorter.prepare()
  sorter.getReady()
  sorter.done('B', 'A')
  assert.deepEqual(sorter.getReady(), ['X', 'Y'])
})

test('[MIS-223] add belongs before prepare, and done to what was handed out, once', () => {
  const sorter = sorterOf({ A: '', B: 'A' })
  assert.throws(() => sorter.getReady(), { code: 'dag.sorter.not_prepared' })
  sorter.prepare()
  assert.throws(() => sorter.add({ id: 'C', sequence: 9 }), { code: 'dag.sorter.prepared' })
  assert.throws(() => sorter.done('A'), { code: 'dag.sorter.not_handed_out' })
  sorter.getReady()
  sorter.done('A')
  assert.throws(() => sorter.done('A'), { code: 'dag.sorter.not_handed_out' })
  assert.throws(() => sorter.done('nobody'), { code: 'dag.sorter.not_handed_out' })
})
