import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  addMoney,
  compareMoney,
  formatMoney,
  type Money,
  maxMoney,
  moneyFromMicros,
  moneyFromNumber,
  parseMoney,
  subtractMoney,
  sumMoney,
  zeroMoney,
} from './money.ts'
import type { Decision } from './refusal.ts'

function must<T>(decision: Decision<T>): T {
  assert.ok(decision.ok, decision.ok ? '' : `${decision.code}: ${decision.reason}`)
  return decision.value
}
const codeOf = (decision: Decision<unknown>) => (decision.ok ? 'accepted' : decision.code)
const anyMoney = fc.bigInt({ min: 0n, max: 999_999_999_999_999n }).map((micros) => must(moneyFromMicros(micros)))

describe('money', () => {
  for (const [text, shown] of [
    ['0', '0.000000'],
    ['0.003', '0.003000'],
    ['12.50', '12.500000'],
    ['999999999.999999', '999999999.999999'],
  ] as const) {
    test(`reads ${text} and writes ${shown}`, () => assert.equal(formatMoney(must(parseMoney(text))), shown))
  }

  for (const text of [
    '',
    ' 1',
    '1 ',
    'NaN',
    'Infinity',
    '-Infinity',
    '1e3',
    '0x10',
    '.5',
    '5.',
    '+1',
    '01',
    '1,50',
    '1.0000000',
    '１',
    '1_000',
  ]) {
    test(`refuses the form ${JSON.stringify(text)}`, () => assert.equal(codeOf(parseMoney(text)), 'money.format'))
  }

  for (const text of ['-1', '-0.000001', '1000000000', '9999999999999999999999', '9'.repeat(100_000)]) {
    test(`refuses the amount ${text.slice(0, 24)}`, () => assert.equal(codeOf(parseMoney(text)), 'money.range'))
  }

  test('takes only JavaScript numbers that are exact to six decimals', () => {
    assert.equal(formatMoney(must(moneyFromNumber(0.1))), '0.100000')
    assert.equal(formatMoney(must(moneyFromNumber(0.000001))), '0.000001')
    assert.equal(formatMoney(must(moneyFromNumber(-0))), '0.000000')
    for (const amount of [Number.NaN, Number.POSITIVE_INFINITY, 0.1 + 0.2, 1e-7]) {
      assert.equal(codeOf(moneyFromNumber(amount)), 'money.format', String(amount))
    }
    for (const amount of [-1, 1_000_000_000, 1e21]) {
      assert.equal(codeOf(moneyFromNumber(amount)), 'money.range', String(amount))
    }
  })

  test('1000 times 0.003 is exactly 3, where floats are not', () => {
    const price = must(parseMoney('0.003'))
    assert.equal(formatMoney(must(sumMoney(Array<Money>(1000).fill(price)))), '3.000000')
  })

  test('the ends of the range are refused from the next millionth on', () => {
    const millionth = must(parseMoney('0.000001'))
    assert.equal(codeOf(addMoney(maxMoney, millionth)), 'money.range')
    assert.equal(codeOf(subtractMoney(zeroMoney, millionth)), 'money.range')
    assert.equal(must(subtractMoney(maxMoney, maxMoney)), zeroMoney)
  })

  test('writing and reading gives the same amount, and numbers agree with texts', () => {
    fc.assert(
      fc.property(anyMoney, (amount) => {
        assert.equal(must(parseMoney(formatMoney(amount))), amount)
        assert.equal(must(moneyFromNumber(Number(formatMoney(amount)))), amount)
      }),
    )
  })

  test('adding and subtracting undo each other; order agrees with micro-units', () => {
    fc.assert(
      fc.property(anyMoney, anyMoney, (left, right) => {
        const sum = addMoney(left, right)
        if (sum.ok) assert.equal(must(subtractMoney(sum.value, right)), left)
        else assert.ok(BigInt(left) + BigInt(right) > 999_999_999_999_999n)
        assert.equal(compareMoney(left, right), Math.sign(Number(left) - Number(right)))
      }),
    )
  })
})
