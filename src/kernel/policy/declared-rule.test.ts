/** Rules as data: every operator, what is refused, and that they run in the same engine as rules in code. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { compareDecimals, compileDeclaredRule, isDecimal } from './declared-rule.ts'
import { evaluatePolicy } from './evaluate.ts'
import { compileRules, externalSharing, type Facts, type PolicyInput, type PolicyRule } from './policy.ts'

const limit = {
  name: 'cost_limit',
  category: 'cost',
  actions: ['book_hotel'],
  when: [
    { path: 'command.payload.total_price', op: 'gt', value: 500 },
    { path: 'command.payload.currency', op: 'eq', value: 'USD' },
  ],
  answer: { decision: 'require_approval', reasons: ['over 500 USD'], required_approvals: ['second_approver'] },
}

function compiled(rule: unknown): PolicyRule {
  const decision = compileDeclaredRule(rule)
  assert.ok(decision.ok, decision.ok ? '' : decision.reason)
  return decision.value
}

function aQuestion(payload: Facts, context: Facts = {}): PolicyInput {
  return { action: 'book_hotel', command: { payload }, task: {}, context }
}

test('[POL-06] a declared rule and a coded one answer one question in one engine', () => {
  const policy = compileRules('v1', [compiled(limit), externalSharing])
  assert.ok(policy.ok)
  const ask = (payload: Facts) => evaluatePolicy(policy.value, aQuestion(payload))
  const both = ask({ total_price: 501, currency: 'USD', destination: 'a@b.example' })
  assert.equal(both.decision, 'require_approval')
  assert.deepEqual(both.required_approvals, ['data_owner', 'second_approver'])
  assert.deepEqual(ask({ total_price: 501, currency: 'USD' }).required_approvals, ['second_approver'])
  assert.equal(ask({ total_price: 500, currency: 'USD' }).decision, 'allow')
  assert.equal(ask({ total_price: 501, currency: 'EUR' }).decision, 'allow')
})

/** Operator, value of the rule, value of the question, whether it holds. */
const cases: [string, unknown, unknown, boolean | 'throws'][] = [
  ['eq', 'a', 'a', true],
  ['eq', 1, '1', false],
  ['eq', null, null, true],
  ['eq', 'a', undefined, false],
  ['ne', 'a', 'b', true],
  ['ne', 'a', 'a', false],
  ['ne', 'a', undefined, false],
  ['in', ['a', 'b'], 'b', true],
  ['in', ['a', 'b'], 'c', false],
  ['not_in', ['a', 'b'], 'c', true],
  ['not_in', ['a', 'b'], 'a', false],
  ['not_in', ['a'], undefined, false],
  ['gt', 500, 500.01, true],
  ['gt', 500, 500, false],
  ['gt', 500, '500.000001', true],
  ['gt', '0.3', 0.3, false],
  ['gt', 500, 'lots', 'throws'],
  ['gt', 500, [501], 'throws'],
  ['gt', 500, undefined, false],
  ['gte', 500, '500.0', true],
  ['lt', 0, -1, true],
  ['lt', 0, 0, false],
  ['lte', '10', 10, true],
  ['contains', 'b', 'abc', true],
  ['contains', 'b', ['a', 'b'], true],
  ['contains', 'b', ['a'], false],
  ['contains', 'b', { b: 1 }, 'throws'],
  ['starts_with', 'ext', 'external', true],
  ['starts_with', 'ext', 'next', false],
  ['starts_with', 'ext', 7, 'throws'],
  ['present', undefined, 0, true],
  ['present', undefined, null, false],
  ['absent', undefined, undefined, true],
  ['absent', undefined, null, true],
  ['absent', undefined, '', false],
]

describe('operators', () => {
  for (const [op, value, found, expected] of cases)
    test(`${JSON.stringify(found) ?? 'nothing'} ${op} ${JSON.stringify(value) ?? ''} → ${expected}`, () => {
      const condition = { path: 'command.payload.x', op, ...(value === undefined ? {} : { value }) }
      const rule = compiled({
        ...limit,
        when: [condition],
        answer: { decision: 'deny' },
        otherwise: { decision: 'allow' },
      })
      const decide = () => rule.decide(aQuestion(found === undefined ? {} : { x: found }))?.decision
      if (expected === 'throws') assert.throws(decide, TypeError)
      else assert.equal(decide(), expected ? 'deny' : 'allow')
    })

  test('a value that is not a number cannot bypass a limit', () => {
    const policy = compileRules('v1', [compiled(limit), externalSharing])
    assert.ok(policy.ok)
    const result = evaluatePolicy(policy.value, aQuestion({ total_price: '1e9', currency: 'USD' }))
    assert.equal(result.decision, 'deny')
    assert.equal(result.trace[0]?.fault, true)
  })

  test('a path reads own fields only', () => {
    for (const path of ['command.constructor', 'command.__proto__', 'context.toString.name']) {
      const rule = compiled({ ...limit, when: [{ path, op: 'present' }] })
      assert.equal(rule.decide(aQuestion({})), undefined)
    }
    const byAction = compiled({ ...limit, when: [{ path: 'action', op: 'eq', value: 'book_hotel' }] })
    assert.equal(byAction.decide(aQuestion({}))?.decision, 'require_approval')
  })
})

describe('refused', () => {
  const condition = { path: 'command.payload.x', op: 'eq', value: 1 }
  const wrong: [string, unknown, string][] = [
    ['no object', 'deny everything', 'rule'],
    ['an unknown field', { ...limit, whenn: [] }, 'rule'],
    ['no name', { ...limit, name: '' }, 'name'],
    ['an unknown category', { ...limit, category: 'mood' }, 'category'],
    ['no actions', { ...limit, actions: [] }, 'actions'],
    ['a pattern for actions', { ...limit, actions: 'book_*' }, 'actions'],
    ['no conditions', { ...limit, when: undefined }, 'when'],
    ['an unknown operator', { ...limit, when: [condition, { ...condition, op: 'matches' }] }, 'when[1].op'],
    ['an unknown field of a condition', { ...limit, when: [{ ...condition, not: true }] }, 'when[0]'],
    ['a path from nowhere', { ...limit, when: [{ ...condition, path: 'payload.x' }] }, 'when[0]'],
    ['a path with a hole', { ...limit, when: [{ ...condition, path: 'command..x' }] }, 'when[0]'],
    ['a list for one value', { ...limit, when: [{ ...condition, value: [1] }] }, 'when[0]'],
    ['one value for a list', { ...limit, when: [{ ...condition, op: 'in' }] }, 'when[0]'],
    ['a limit that is not a number', { ...limit, when: [{ ...condition, op: 'gt', value: 'many' }] }, 'when[0]'],
    ['a limit of NaN', { ...limit, when: [{ ...condition, op: 'gt', value: Number.NaN }] }, 'when[0]'],
    ['a value for present', { ...limit, when: [{ ...condition, op: 'present' }] }, 'when[0]'],
    ['no answer', { ...limit, answer: undefined }, 'answer'],
    ['an unknown decision', { ...limit, answer: { decision: 'maybe' } }, 'answer.decision'],
    ['a text for reasons', { ...limit, answer: { decision: 'deny', reasons: 'no' } }, 'answer.reasons'],
    ['a wrong second answer', { ...limit, otherwise: { decision: 'fine' } }, 'otherwise.decision'],
  ]
  for (const [name, rule, path] of wrong)
    test(name, () => {
      const decision = compileDeclaredRule(rule)
      assert.ok(!decision.ok)
      assert.equal(decision.code, 'policy.rule.invalid')
      assert.equal(decision.path, path)
    })
})

test('a compiled rule does not change with the data it was made from', () => {
  const data = structuredClone(limit)
  const rule = compiled(data)
  data.answer.decision = 'allow'
  data.answer.required_approvals.pop()
  data.actions.push('everything')
  assert.deepEqual(rule.decide(aQuestion({ total_price: 501, currency: 'USD' })), limit.answer)
  assert.deepEqual(rule.actions, ['book_hotel'])
})

test('decimals are compared exactly', () => {
  const digits = fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n })
  const asText = (millionths: bigint) => {
    const text = String(millionths < 0n ? -millionths : millionths).padStart(7, '0')
    return `${millionths < 0n ? '-' : ''}${text.slice(0, -6)}.${text.slice(-6)}`
  }
  fc.assert(
    fc.property(digits, digits, (left, right) => {
      assert.ok(isDecimal(asText(left)))
      assert.equal(Math.sign(compareDecimals(asText(left), asText(right))), left < right ? -1 : left > right ? 1 : 0)
    }),
  )
  assert.equal(compareDecimals('2', '1.5'), 1)
  assert.equal(compareDecimals('1.50', 1.5), 0)
  assert.equal(compareDecimals('-0.5', '0'), -1)
  assert.equal(compareDecimals('9007199254740993', '9007199254740992'), 1)
  assert.ok(compareDecimals(1e300, '5') > 0)
  assert.ok(!isDecimal('1e9') && !isDecimal('') && !isDecimal('9'.repeat(41)) && !isDecimal(Infinity))
})
