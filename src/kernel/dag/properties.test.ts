/** Random graphs of up to 200 nodes against models that are slow and obvious. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  ruleOf,
  countRemaining,
  decideReadiness,
  endStates,
  isEndState,
  listReady,
  listUpstream,
  type NodeState,
  planCascade,
  triggerRules,
} from './readiness.ts'
import {
  findCycle,
  type Graph,
  type GraphNode,
  indexGraph,
  sortNodes,
  TopologicalSorter,
  validateGraph,
} from './graph.ts'

/** Edges lead from earlier to later places of a hidden order; sequences repeat, so that ties happen. */
const someNodes: fc.Arbitrary<GraphNode[]> = fc
  .array(
    fc.record({
      sequence: fc.nat({ max: 20 }),
      rule: fc.constantFrom(...triggerRules),
      before: fc.array(fc.nat(), { maxLength: 4 }),
    }),
    { maxLength: 200, size: 'max' },
  )
  .map((drafts) =>
    drafts.map(({ sequence, rule, before }, at) => {
      const places = new Set(at === 0 ? [] : before.map((place) => place % at))
      // Reversed numbers keep the ids from sorting like the hidden order.
      return { id: `n${999 - at}`, sequence, rule, dependsOn: [...places].map((place) => `n${999 - place}`) }
    }),
  )

function graphOf(nodes: readonly GraphNode[]): Graph {
  const decision = validateGraph(nodes)
  assert.ok(decision.ok)
  return decision.value
}

const idsInOrder = (graph: Graph) => graph.order.map((position) => graph.nodes[position]?.id ?? '')

/** Again and again the first node, by sequence and id, whose dependencies are all out. */
function orderByScan(nodes: readonly GraphNode[]): string[] {
  const left = nodes.toSorted((a, b) => a.sequence - b.sequence || (a.id < b.id ? -1 : 1))
  const out: string[] = []
  while (left.length > 0) {
    const at = left.findIndex((node) => node.dependsOn.every((id) => out.includes(id)))
    out.push(...left.splice(at, 1).map((node) => node.id))
  }
  return out
}

function shuffled(nodes: readonly GraphNode[], keys: readonly number[]): GraphNode[] {
  const by = (at: number) => keys[at % keys.length] ?? 0
  return nodes
    .map((node, at) => ({ node: { ...node, dependsOn: node.dependsOn.toReversed() }, key: by(at * 7) }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ node }) => node)
}

describe('order', () => {
  test('[MIS-223] the order is a linear extension of the transitive closure, ties by sequence and id', () => {
    fc.assert(
      fc.property(someNodes, (nodes) => {
        const order = idsInOrder(graphOf(nodes))
        const place = new Map(order.map((id, at) => [id, at]))
        const ancestors = new Map<string, Set<string>>()
        for (const node of nodes) {
          const all = new Set(node.dependsOn.flatMap((id) => [id, ...(ancestors.get(id) ?? [])]))
          ancestors.set(node.id, all)
          for (const id of all) assert.ok((place.get(id) ?? Infinity) < (place.get(node.id) ?? -1))
        }
        assert.deepEqual(order, orderByScan(nodes))
      }),
    )
  })

  test('[MIS-223] the same nodes in any insertion order give the same order, in one go and step by step', () => {
    fc.assert(
      fc.property(someNodes, fc.array(fc.nat(), { minLength: 3, maxLength: 50 }), (nodes, keys) => {
        assert.deepEqual(idsInOrder(graphOf(shuffled(nodes, keys))), idsInOrder(graphOf(nodes)))
        const waves = [nodes, shuffled(nodes, keys)].map((input) => {
          const sorter = new TopologicalSorter()
          for (const node of input) sorter.add(node, node.dependsOn)
          sorter.prepare()
          const handedOut: (readonly string[])[] = []
          while (sorter.isActive()) {
            const wave = sorter.getReady()
            handedOut.push(wave)
            sorter.done(...wave)
          }
          return handedOut
        })
        assert.deepEqual(waves[0], waves[1])
        const done = new Set<string>()
        for (const wave of waves[0] ?? []) {
          for (const id of wave)
            assert.ok(nodes.find((node) => node.id === id)?.dependsOn.every((other) => done.has(other)))
          for (const id of wave) done.add(id)
        }
        assert.equal(done.size, nodes.length)
      }),
    )
  })
})

/** The number of nodes on the shortest way from each node back to itself. */
function shortestCycle(nodes: readonly GraphNode[]): number {
  let best = Infinity
  for (const start of nodes) {
    const distance = new Map([[start.id, 0]])
    for (const [id, steps] of distance)
      for (const before of nodes.find((node) => node.id === id)?.dependsOn ?? []) {
        if (before === start.id) best = Math.min(best, steps + 1)
        else if (!distance.has(before)) distance.set(before, steps + 1)
      }
  }
  return best
}

test('a planted cycle is found, the path is a real one and the shortest; without one nothing is refused', () => {
  fc.assert(
    fc.property(someNodes, fc.nat(), fc.nat(), fc.array(fc.nat(), { minLength: 3 }), (nodes, from, walk, keys) => {
      assert.equal(validateGraph(nodes).ok, true)
      const start = nodes[from % Math.max(1, nodes.length)]
      fc.pre(start !== undefined && start.dependsOn.length > 0)
      let ancestor = start
      for (let step = 0; step <= walk % 9; step++) {
        const next = ancestor.dependsOn[walk % Math.max(1, ancestor.dependsOn.length)]
        ancestor = nodes.find((node) => node.id === next) ?? ancestor
      }
      const planted = nodes.map((node) =>
        node.id === ancestor.id ? { ...node, dependsOn: [...node.dependsOn, start.id] } : node,
      )
      const decision = validateGraph(planted)
      assert.equal(decision.ok ? 'accepted' : decision.code, 'dag_cycle')
      const cycle = findCycle(indexGraph(sortNodes(planted)))
      assert.equal(cycle.length, shortestCycle(planted))
      for (const [at, node] of cycle.entries())
        assert.ok(node.dependsOn.includes(cycle.at(at - 1)?.id ?? ''), `${node.id} does not wait for the one before it`)
      assert.equal(new Set(cycle).size, cycle.length)
      const again = findCycle(indexGraph(sortNodes(shuffled(planted, keys))))
      assert.deepEqual(
        again.map((node) => node.id),
        cycle.map((node) => node.id),
      )
    }),
    { numRuns: 60 },
  )
})

/** Skip whatever can never start, from the whole graph, until nothing changes. */
function skipByFixpoint(graph: Graph, before: ReadonlyMap<string, NodeState>): Map<string, NodeState> {
  const states = new Map(before)
  for (let changed = true; changed; ) {
    changed = false
    for (const [position, node] of graph.nodes.entries()) {
      const isPending = (states.get(node.id) ?? 'pending') === 'pending'
      if (!isPending) continue
      if (decideReadiness(ruleOf(node), listUpstream(graph, states, position)).kind !== 'unreachable') continue
      states.set(node.id, 'skipped')
      changed = true
    }
  }
  return states
}

/** A whole run: `picks` says which node moves next and how it ends; counters are kept as the database keeps them. */
function runToEnd(graph: Graph, picks: readonly number[], afterEach: (states: Map<string, NodeState>) => void) {
  const states = new Map<string, NodeState>(graph.nodes.map((node) => [node.id, 'pending']))
  const remaining = new Map(countRemaining(graph))
  const release = () => {
    for (const [id, left] of remaining) if (left === 0 && states.get(id) === 'pending') states.set(id, 'active')
  }
  release()
  for (let step = 0; ; step++) {
    const open = [...states].filter(([, state]) => state === 'active').map(([id]) => id)
    const pick = picks[step % picks.length] ?? 0
    // Now and then a pending node is cancelled by hand, as a person may do.
    const waiting = [...states].filter(([, state]) => state === 'pending').map(([id]) => id)
    const byHand = pick % 11 === 0 && open.length > 0 ? waiting[pick % Math.max(1, waiting.length)] : undefined
    const id = byHand ?? open[pick % Math.max(1, open.length)]
    if (id === undefined) return states
    states.set(id, byHand === undefined ? (endStates[pick % endStates.length] ?? 'completed') : 'cancelled')
    const expected = skipByFixpoint(graph, states)
    const cascade = planCascade(graph, states, id)
    const ended = new Set([id])
    for (const skip of cascade.skips) {
      assert.ok(ended.has(skip.because), 'a cause precedes its consequence')
      assert.equal(states.get(skip.because), skip.state)
      const node = graph.nodes[graph.positions.get(skip.id) ?? -1]
      assert.ok(node?.dependsOn.includes(skip.because))
      states.set(skip.id, 'skipped')
      ended.add(skip.id)
    }
    assert.deepEqual(states, expected)
    const places = cascade.decrements.map((decrement) => graph.positions.get(decrement.id) ?? -1)
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
      'decrements are in stable order',
    )
    for (const decrement of cascade.decrements) assert.equal(states.get(decrement.id), 'pending')
    for (const { id: waitingId, by } of cascade.decrements)
      remaining.set(waitingId, (remaining.get(waitingId) ?? 0) - by)
    release()
    afterEach(states)
    const recounted = countRemaining(graph, states)
    for (const [node, state] of states)
      if (state === 'pending') assert.equal(remaining.get(node), recounted.get(node), 'the counter has drifted')
  }
}

const somePicks = fc.array(fc.nat({ max: 1_000 }), { minLength: 20, maxLength: 60 })

describe('cascade and counters', () => {
  test('[MIS-231] the cascade after each end equals the fixpoint over the whole graph', () => {
    fc.assert(
      fc.property(someNodes, somePicks, (nodes, picks) => {
        runToEnd(graphOf(nodes), picks, () => {})
      }),
      { numRuns: 40 },
    )
  })

  test('[MIS-231] no node is left pending in a graph without active nodes', () => {
    fc.assert(
      fc.property(someNodes, somePicks, (nodes, picks) => {
        const states = runToEnd(graphOf(nodes), picks, () => {})
        assert.deepEqual(
          [...states].filter(([, state]) => !isEndState(state)),
          [],
        )
      }),
      { numRuns: 40 },
    )
  })

  test('[MIS-226] [MIS-227] [MIS-228] [MIS-229] readiness by counter equals readiness by scan', () => {
    fc.assert(
      fc.property(someNodes, somePicks, (nodes, picks) => {
        const graph = graphOf(nodes)
        let seen = 0
        runToEnd(graph, picks, (states) => {
          seen++
          // Whatever the counters released is active by now, so a scan must find nothing more to release,
          assert.deepEqual(listReady(graph, states), [])
          // and nothing that is active or ended by work may have been released too early.
          for (const [position, node] of graph.nodes.entries()) {
            if (states.get(node.id) !== 'active') continue
            assert.equal(decideReadiness(ruleOf(node), listUpstream(graph, states, position)).kind, 'ready')
          }
        })
        assert.ok(seen > 0 || nodes.length === 0)
      }),
      { numRuns: 40 },
    )
  })

  test('the same input in any insertion order gives the same cascade', () => {
    fc.assert(
      fc.property(someNodes, fc.array(fc.nat(), { minLength: 3 }), fc.nat(), (nodes, keys, pick) => {
        const first = nodes[pick % Math.max(1, nodes.length)]
        fc.pre(first !== undefined)
        const states = new Map<string, NodeState>([[first.id, 'failed']])
        const plans = [nodes, shuffled(nodes, keys)].map((input) => planCascade(graphOf(input), states, first.id))
        assert.deepEqual(plans[0], plans[1])
      }),
    )
  })
})

test('a cascade through 100,000 nodes needs no deep recursion', () => {
  const nodes = Array.from({ length: 100_000 }, (_, at) => ({
    id: `n${at}`,
    sequence: at,
    dependsOn: at === 0 ? [] : [`n${at - 1}`],
  }))
  const { skips } = planCascade(graphOf(nodes), new Map([['n0', 'failed']]), 'n0')
  assert.equal(skips.length, 99_999)
  assert.deepEqual(skips[0], { id: 'n1', because: 'n0', state: 'failed' })
  assert.deepEqual(skips.at(-1), { id: 'n99999', because: 'n99998', state: 'skipped' })
})

test('a cascade asked about a node that has not ended is a fault', () => {
  const graph = graphOf([{ id: 'a', sequence: 0, dependsOn: [] }])
  assert.throws(() => planCascade(graph, new Map([['a', 'active']]), 'a'), { code: 'dag.cascade.not_ended' })
  assert.throws(() => planCascade(graph, new Map(), 'nobody'), { code: 'dag.cascade.not_ended' })
})
