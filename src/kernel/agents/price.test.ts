import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { formatMoney, maxMoney } from '../money.ts'
import { priceUsage, priceWorstCase, type TokenPrices } from './price.ts'

const aPrice = fc.integer({ min: 0, max: 200_000_000 }).map((micros) => (micros / 1_000_000).toFixed(6))
const somePrices: fc.Arbitrary<TokenPrices> = fc.record(
  { input: aPrice, cachedInput: aPrice, output: aPrice },
  { requiredKeys: ['input', 'output'] },
)
const count = fc.integer({ min: 0, max: 10_000_000 })

describe('the price of tokens', () => {
  test('is exact per million and rounds up to a millionth', () => {
    const prices = { input: '0.15', cachedInput: '0.075', output: '0.6' }
    const cost = (inputTokens: number, outputTokens: number, cachedTokens = 0) =>
      formatMoney(priceUsage(prices, { inputTokens, outputTokens, cachedTokens }))
    assert.equal(cost(1_000_000, 0), '0.150000')
    assert.equal(cost(1_000_000, 1_000_000, 1_000_000), '0.675000')
    assert.equal(cost(1, 0), '0.000001')
    assert.equal(cost(0, 0), '0.000000')
    assert.equal(cost(5, 5, 9), '0.000004')
  })

  test('ends at the highest amount, and a price that cannot be read is the highest', () => {
    const usage = { inputTokens: Number.MAX_SAFE_INTEGER, outputTokens: 0, cachedTokens: 0 }
    assert.equal(priceUsage({ input: '200', output: '1' }, usage), maxMoney)
    assert.equal(priceUsage({ input: 'NaN', output: '1' }, { ...usage, inputTokens: 1_000_000 }), maxMoney)
  })

  test('the worst case is never below the price of a usage that fits into the bytes and the output cap', () => {
    fc.assert(
      fc.property(
        somePrices,
        count,
        count,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (prices, inputTokens, outputTokens, ofInput, ofOutput, ofCached) => {
          const used = Math.floor(inputTokens * ofInput)
          const usage = {
            inputTokens: used,
            outputTokens: Math.floor(outputTokens * ofOutput),
            cachedTokens: Math.floor(used * ofCached),
          }
          assert.ok(priceUsage(prices, usage) <= priceWorstCase(prices, { inputTokens, outputTokens }))
        },
      ),
      { numRuns: 2000 },
    )
  })

  test('the price of two calls is at most a millionth above that of both in one', () => {
    fc.assert(
      fc.property(somePrices, count, count, (prices, one, other) => {
        const of = (inputTokens: number) => priceUsage(prices, { inputTokens, outputTokens: 0, cachedTokens: 0 })
        const [apart, whole] = [BigInt(of(one)) + BigInt(of(other)), BigInt(of(one + other))]
        assert.ok(apart >= whole && apart <= whole + 1n)
      }),
    )
  })
})
