/** A command is finished only when every step of its plan is settled; whatever is missing is named, and never an end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { StoredCommand, StoredEffect } from './command-table.ts'
import { type ExecutionPlan, nextEffect, type PlanStep } from './plan.ts'

const now = new Date('2026-05-01T10:00:00.000Z')
const statuses = ['planned', 'executing', 'succeeded', 'failed', 'absent'] as const

function aPlan(count: number, after: (index: number) => readonly number[]): ExecutionPlan {
  const steps = Array.from(
    { length: count },
    (_, index): PlanStep => ({
      step_id: `step_${index}`,
      primitive: 'async_task',
      function_name: 'f',
      depends_on: after(index).map((at) => `step_${at}`),
      metadata: { domain_effect_id: `e${index}` },
    }),
  )
  const ids = { plan_id: 'p', command_id: 'c', plan_schema_version: 1, execution_mode: 'async' } as const
  return { ...ids, queue: 'concord_default', primitives: [], steps }
}

// Only what the decision reads; the rest of a row does not matter here.
const aCase = (plan: ExecutionPlan | null, effects: readonly Partial<StoredEffect>[]) => ({
  command: { plan } as StoredCommand,
  effects: effects as readonly StoredEffect[],
})

test('whatever the rows say, a command is finished if and only if every planned step has an effect that succeeded', () => {
  const shape = fc.array(fc.constantFrom(...statuses), { maxLength: 6 })
  fc.assert(
    fc.property(shape, fc.boolean(), (given, isChain) => {
      const plan = aPlan(given.length, (index) => (isChain && index > 0 ? [index - 1] : []))
      const effects = given.flatMap((status, index) =>
        status === 'absent' ? [] : [{ domain_effect_id: `e${index}`, status, run_after: null, result: index }],
      )
      const next = nextEffect(aCase(plan, effects), now)
      assert.equal(
        next.t === 'finished',
        given.every((status) => status === 'succeeded'),
      )
      if (next.t === 'finished') assert.equal(next.results.length, given.length)
    }),
    { numRuns: 2_000 },
  )
})

test('the result of the notification that the plan added is none of the results', () => {
  const plan = aPlan(2, () => [])
  const effects = [0, 1].map((index) => ({
    domain_effect_id: `e${index}`,
    status: 'succeeded' as const,
    result: index,
  }))
  const marked = plan.steps.map((step, index) => ({ ...step, metadata: { ...step.metadata, added: index === 1 } }))
  const resultsOf = (of: ExecutionPlan) => {
    const next = nextEffect(aCase(of, effects), now)
    return next.t === 'finished' ? next.results : assert.fail(next.t)
  }
  assert.deepEqual([resultsOf(plan), resultsOf({ ...plan, steps: marked })], [[0, 1], [0]])
})

test('a running command without effects, without a plan, or with a step that nothing leads to is torn, and says where', () => {
  const plan = aPlan(2, () => [])
  assert.deepEqual(nextEffect(aCase(plan, []), now), { t: 'torn', steps: ['step_0', 'step_1'] })
  assert.deepEqual(nextEffect(aCase(null, []), now), { t: 'torn', steps: ['the plan itself'] })
  const circle = aPlan(2, (index) => [1 - index])
  const effects = [0, 1].map((index) => ({
    domain_effect_id: `e${index}`,
    status: 'planned' as const,
    run_after: null,
  }))
  assert.deepEqual(nextEffect(aCase(circle, effects), now), { t: 'torn', steps: ['step_0', 'step_1'] })
})
