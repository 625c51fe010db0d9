/** What makes a mission a success: ten cases by hand, and random graphs against the definition read aloud. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type GraphNode, validateGraph } from './graph.ts'
import {
  decideOutcome,
  endStates,
  isCompletedOutcome,
  listEssentialEnds,
  type NodeState,
  triggerRules,
} from './readiness.ts'

/** A task is `name(dependencies):rule=state`; the rule may be left out. */
function aMission(text: string) {
  const nodes: GraphNode[] = []
  const states = new Map<string, NodeState>()
  for (const [sequence, task] of text.split(' ').filter(Boolean).entries()) {
    const found = /^(\w+)(?:\(([\w,]*)\))?(?::(\w+))?=(\w+)$/.exec(task)
    assert.ok(found, task)
    const [, id = '', before = '', rule, state = ''] = found
    const known = triggerRules.find((name) => name === rule)
    nodes.push({ id, sequence, dependsOn: before.split(',').filter(Boolean), ...(known ? { rule: known } : {}) })
    states.set(id, state as NodeState)
  }
  const graph = validateGraph(nodes)
  assert.ok(graph.ok)
  return { graph: graph.value, states }
}

const cases: [string, string, string, string[]][] = [
  ['no tasks at all', '', 'success', []],
  ['one task completed', 'a=completed', 'success', []],
  ['one task failed', 'a=failed', 'failure', ['a']],
  ['a chain whose end was skipped', 'a=failed b(a)=skipped', 'failure', ['b']],
  ['a failure that an all_done join tolerates', 'a=failed b=completed c(a,b):all_done=completed', 'success', []],
  ['one of two ends failed', 'a=completed b(a)=completed c(a)=failed', 'failure', ['c']],
  ['a failed cleanup does not spoil it', 'a=completed b(a):always=failed', 'success', []],
  ['a completed cleanup does not save it', 'a=failed b(a):always=completed', 'failure', ['a']],
  ['only always tasks', 'a:always=failed b(a):always=completed', 'success', []],
  ['a cancelled end', 'a=completed b(a)=cancelled', 'failure', ['b']],
  ['a task still at work', 'a=completed b(a)=active', 'open', []],
  ['a task still pending', 'a=active b(a)=pending', 'open', []],
]

for (const [name, mission, kind, failing] of cases)
  test(`[MIS-162] ${name}: ${kind}`, () => {
    const { graph, states } = aMission(mission)
    const outcome = decideOutcome(graph, states)
    assert.equal(outcome.kind, kind)
    assert.deepEqual(outcome.kind === 'failure' ? outcome.failing : [], failing)
  })

test('[MIS-162] edges into always tasks do not hide an end task', () => {
  const { graph } = aMission('a=completed b(a)=completed sweep(b):always=completed report(sweep)=completed')
  assert.deepEqual(listEssentialEnds(graph), ['b', 'report'])
})

test('[MIS-162] on random graphs with failures the outcome is what the definition says', () => {
  const task = fc.record({
    rule: fc.constantFrom(...triggerRules),
    state: fc.constantFrom(...endStates),
    before: fc.uniqueArray(fc.nat({ max: 199 }), { maxLength: 4 }),
  })
  fc.assert(
    fc.property(fc.array(task, { maxLength: 40 }), (tasks) => {
      const nodes = tasks.map(({ rule, before }, at) => ({
        id: `t${at}`,
        sequence: at,
        rule,
        dependsOn: before.filter((other) => other < at).map((other) => `t${other}`),
      }))
      const graph = validateGraph(nodes)
      assert.ok(graph.ok)
      const states = new Map<string, NodeState>(tasks.map(({ state }, at) => [`t${at}`, state]))
      let isSuccess = true
      for (const node of nodes) {
        const dependents = nodes.filter((other) => other.dependsOn.includes(node.id) && other.rule !== 'always')
        const isEssential = node.rule !== 'always' && dependents.length === 0
        if (isEssential && states.get(node.id) !== 'completed') isSuccess = false
      }
      assert.equal(isCompletedOutcome(graph.value, states), isSuccess)
      assert.equal(decideOutcome(graph.value, states).kind, isSuccess ? 'success' : 'failure')
    }),
  )
})
