/** The first rule of Concord and the rule about risk, case by case. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { evaluatePolicy } from './evaluate.ts'
import { compileRules, externalSharing, higherRisk, riskLevels } from './policy.ts'

const asked = {
  decision: 'require_approval',
  reasons: ['External sharing requires approval.'],
  required_approvals: ['data_owner'],
}

function decide(payload: unknown, inside?: readonly string[]) {
  return externalSharing.decide({ action: 'a', command: { payload }, task: {}, context: { facts: { inside } } })
}

test('[POL-07] a destination that is not declared asks the owner of the data', () => {
  for (const destination of [
    'finance@example.com',
    'external:x',
    'external:',
    '@',
    '',
    'team',
    ['internal', 'a@b.example'],
  ])
    assert.deepEqual(decide({ destination }), asked)
})

test('[POL-07] an internal destination, a declared one and none at all are allowed', () => {
  for (const payload of [{ destination: 'internal' }, { destination: null }, { destination: [] }, {}, undefined])
    assert.deepEqual(decide(payload), { decision: 'allow' })
  assert.deepEqual(decide({ destination: ['team', 'internal'] }, ['team']), { decision: 'allow' })
  assert.deepEqual(decide({ destination: ['team', 'board'] }, ['team']), asked)
})

test('a destination that is not a text is not treated as internal', () => {
  for (const destination of [{ to: 'x' }, 7, true, [['internal']]]) assert.deepEqual(decide({ destination }), asked)
})

test('[POL-07] the same through the engine', () => {
  const policy = compileRules('v1', [externalSharing])
  assert.ok(policy.ok)
  const ask = (destination: string) =>
    evaluatePolicy(policy.value, {
      action: 'publish_report',
      command: { payload: { destination } },
      task: {},
      context: {},
    })
  const { decision, reasons, required_approvals: approvals } = ask('finance@example.com')
  assert.deepEqual({ decision, reasons, required_approvals: approvals }, asked)
  assert.equal(ask('internal').decision, 'allow')
})

test('[POL-13] a declared risk never lowers the registered one', () => {
  assert.deepEqual([...riskLevels], ['low', 'medium', 'high'])
  for (const [at, registered] of riskLevels.entries())
    for (const [other, declared] of riskLevels.entries())
      assert.equal(higherRisk(registered, declared), riskLevels[Math.max(at, other)])
})

test('[POL-13] the default is low, and an unknown word counts as high', () => {
  assert.equal(higherRisk(undefined, undefined), 'low')
  assert.equal(higherRisk('medium', undefined), 'medium')
  assert.equal(higherRisk(undefined, 'medium'), 'medium')
  assert.equal(higherRisk('low', 'harmless'), 'high')
})
