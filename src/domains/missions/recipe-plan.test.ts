/** Properties of recipes: steps in topological order, places of variables, and drift. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { aPlan, planTask } from '#test/missions'
import { compareRuns, fillVariables, toSteps, variablesIn } from './recipe-plan.ts'

const rules = ['all_success', 'all_done', 'none_failed', 'always'] as const
/** Task `i` may depend on any other of lower rank; the list is in any order. */
const plans = fc
  .integer({ min: 1, max: 12 })
  .chain((count) =>
    fc.tuple(
      fc.array(fc.tuple(fc.array(fc.nat(20)), fc.constantFrom(...rules), fc.boolean()), {
        minLength: count,
        maxLength: count,
      }),
      fc.shuffledSubarray([...Array(count).keys()], { minLength: count, maxLength: count }),
    ),
  )
  .map(([tasks, order]) => {
    const made = tasks.map(([before, trigger_rule, isData], rank) =>
      planTask(`t${rank}`, {
        trigger_rule,
        depends_on: [...new Set(before.filter((each) => each < rank))].map((each) => ({
          task: `t${each}`,
          type: isData ? ('data' as const) : ('ordering' as const),
        })),
      }),
    )
    return aPlan(...order.flatMap((rank) => made[rank] ?? []))
  })

test('[MIS-317] [MIS-318] steps are in topological order with ties by the order of the plan, whatever the rules', () => {
  const onFailure = { all_success: 'stop', all_done: 'continue', none_failed: 'stop', always: 'always_run' }
  fc.assert(
    fc.property(plans, (plan) => {
      const steps = toSteps(plan, new Map(), {})
      const done = new Set<string>()
      for (const [index, step] of steps.entries()) {
        // The first task of the plan whose dependencies are all behind it.
        const next = plan.tasks.find(
          ({ temp_id, depends_on }) =>
            !done.has(temp_id) && depends_on.every((each) => done.has(typeof each === 'string' ? each : each.task)),
        )
        assert.deepEqual([step.id, step.order], [next?.temp_id, index + 1])
        assert.equal(step.error_handling.on_failure, onFailure[next?.trigger_rule ?? 'always'])
        done.add(step.id)
      }
      assert.equal(done.size, plan.tasks.length)
    }),
  )
})

test('a filled plan has no place left, unless a value brought it; every missing and unknown name is named', () => {
  const names = fc.constantFrom('a', 'b', 'c')
  const text = fc
    .array(
      fc.oneof(
        names.map((name) => `{{${name}}}`),
        fc.constantFrom('x', ' ', '{', '}'),
      ),
    )
    .map((parts) => parts.join(''))
  fc.assert(
    fc.property(fc.array(text), fc.dictionary(names, fc.constantFrom('1', '{{z}}')), (texts, given) => {
      const value = { title: 'x', payload: { texts } }
      const places = variablesIn(value)
      const filled = fillVariables(value, given)
      const missing = places.filter((name) => !Object.hasOwn(given, name))
      const unknown = Object.keys(given).filter((name) => !places.includes(name))
      assert.equal(filled.ok, missing.length + unknown.length === 0)
      if (!filled.ok) assert.deepEqual([filled.facts?.['missing'], filled.facts?.['unknown']], [missing, unknown])
      else
        assert.deepEqual(
          filled.value.payload.texts,
          texts.map((each) => each.replaceAll(/\{\{([abc])\}\}/g, (_, name: string) => given[name] ?? '')),
        )
    }),
  )
})

test('a place alone takes any value; an object inside a longer text is refused', () => {
  assert.deepEqual(fillVariables({ at: '{{ when }}' }, { when: { day: 1 } }), { ok: true, value: { at: { day: 1 } } })
  const refused = fillVariables({ at: 'on {{when}}' }, { when: { day: 1 } })
  assert.match(refused.ok ? '' : refused.reason, /"when" is part of a text/)
})

test('the values of all places together have a limit, which names the variable that passed it', () => {
  const limit = 1_000_000
  const refusedAt = (value: JsonValue, given: JsonObject) => {
    const filled = fillVariables(value, given)
    return filled.ok ? null : [filled.code, filled.path]
  }
  const tooLarge = (name: string) => ['missions.recipe.too_large', `variables.${name}`]
  const half = 'b'.repeat(limit / 2 - 2)
  assert.equal(refusedAt(['{{x}} ', '{{x}}'], { x: half }), null)
  assert.deepEqual(refusedAt(['{{x}} ', '{{x}}', '{{y}}'], { x: half, y: 1 }), tooLarge('y'))
  assert.deepEqual(refusedAt('{{x}}'.repeat(2_000), { x: 'b'.repeat(300_000) }), tooLarge('x'))
  assert.deepEqual(refusedAt(Array(2_000).fill('{{x}}'), { x: { deep: ['b'.repeat(300_000)] } }), tooLarge('x'))
})

test('drift is zero against itself, and names each task that was added, removed or rewired', () => {
  const origin = { cost: '2.00', durationMs: '1000', score: '0.80', shape: { a: [], b: ['a'], c: ['a'] } }
  assert.deepEqual(compareRuns(origin, origin), {
    cost_percent: 0,
    time_percent: 0,
    score: 0,
    added: [],
    removed: [],
    rewired: [],
  })
  const run = { cost: '3.00', durationMs: null, score: '0.90', shape: { a: [], b: ['a', 'd'], d: [] } }
  assert.deepEqual(compareRuns(origin, run), {
    cost_percent: 50,
    time_percent: null,
    score: 0.1,
    added: ['d'],
    removed: ['c'],
    rewired: ['b'],
  })
})
