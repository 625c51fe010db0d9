/** The seed and the number of runs of properties: fixed in CI, random elsewhere; an explicit setting wins. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planProperties } from './property-plan.ts'

const seedOf = (env: Record<string, string>) => {
  const plan = planProperties(env)
  assert.ok(plan.ok, plan.says)
  return plan.seed
}

test('the seed is random, in CI one and the same, and the one that is asked for everywhere', () => {
  assert.equal(seedOf({}), undefined)
  assert.equal(seedOf({ CI: 'false' }), undefined)
  assert.equal(typeof seedOf({ CI: 'true' }), 'number')
  assert.equal(seedOf({ CI: 'true' }), seedOf({ CI: 'true' }))
  assert.equal(seedOf({ CI: 'true', CONCORD_PROPERTY_SEED: '-7' }), -7)
  assert.equal(seedOf({ CI: 'true', CONCORD_PROPERTY_SEED: 'random' }), undefined)
  assert.match(planProperties({ CONCORD_PROPERTY_SEED: '7' }).says, /CONCORD_PROPERTY_SEED=7/)
})

test('what is no seed and no number of runs is refused, with its name and what would do', () => {
  for (const CONCORD_PROPERTY_SEED of ['', 'seven', '1.5', '2147483648', '0x10']) {
    const plan = planProperties({ CONCORD_PROPERTY_SEED })
    assert.equal(plan.ok, false)
    assert.match(plan.says, /^CONCORD_PROPERTY_SEED=.*: give a whole number of 32 bits, or random$/)
  }
  for (const CONCORD_PROPERTY_RUNS of ['', '0', '-1', 'many']) {
    const plan = planProperties({ CONCORD_PROPERTY_RUNS })
    assert.equal(plan.ok, false)
    assert.match(plan.says, /^CONCORD_PROPERTY_RUNS=.*: give a whole number from 1 to/)
  }
})
