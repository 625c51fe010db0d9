import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isFaithfulNumber } from './json-scan.ts'

describe('JSON numbers', () => {
  for (const literal of [
    '0',
    '-0',
    '0.0',
    '0e999',
    '1',
    '-1.5',
    '9007199254740991',
    '-9007199254740991',
    '9007199254740992',
    '6.02214076e23',
    '602214076000000000000000',
    '1e22',
    '100E+20',
    '5e-324',
    '1.7976931348623157e308',
    '0.30000000000000004',
    '0.10000000000000001',
    '1.0000000000000000000000000000',
    '12345678901234567000',
    `0.${'0'.repeat(400)}e5`,
  ]) {
    test(`${literal.slice(0, 40)} survives`, () => assert.equal(isFaithfulNumber(literal), true))
  }

  for (const literal of [
    '0.30000000000000000000000000000000001',
    '0.1000000000000000055511151231257827',
    '3.141592653589793238462643383279e0',
    '9007199254740993',
    '-9007199254740993',
    '9007199254740993.0',
    '9.007199254740993e15',
    '9007199254740992.5',
    '9007199254740991.9',
    '12345678901234567890',
    '1e309',
    '-1e400',
    '1e99999999999999999999',
    '1e-400',
    '0.0001e-330',
    `1${'0'.repeat(400)}`,
    '9'.repeat(300),
  ]) {
    test(`${literal.slice(0, 40)} would change`, () => assert.equal(isFaithfulNumber(literal), false))
  }

  test('what JavaScript writes survives, whichever way it is written', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        assert.ok(isFaithfulNumber(JSON.stringify(value)))
        assert.ok(isFaithfulNumber(value.toExponential().replace('e', 'E')))
      }),
    )
  })

  test('an integer survives exactly if its double prints the same digits', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 24n), max: 10n ** 24n }), (integer) => {
        assert.equal(isFaithfulNumber(String(integer)), shortest(Number(integer)) === integer)
      }),
    )
  })
})

/** The integer that JavaScript's shortest form of a double names. */
function shortest(value: number): bigint {
  const [digits = '', exponent] = String(value).split('e+')
  if (exponent === undefined) return BigInt(digits)
  const [whole = '', fraction = ''] = digits.split('.')
  return BigInt(whole + fraction) * 10n ** BigInt(Number(exponent) - fraction.length)
}
