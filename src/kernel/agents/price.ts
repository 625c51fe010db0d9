/** What tokens cost, in exact amounts and rounded up to a millionth. */
import { maxMoney, type Money, moneyFromMicros, parseMoney } from '../money.ts'

/** Units per million tokens, as exact decimals: `'0.15'`. */
export type TokenPrices = {
  readonly input: string
  /** For input that the provider has cached. The price of input unless it is given. */
  readonly cachedInput?: string | undefined
  readonly output: string
}

/** `cachedTokens` are part of the input. */
export type UsedTokens = { readonly inputTokens: number; readonly outputTokens: number; readonly cachedTokens: number }

const PER = 1_000_000n

/** A cost above the highest amount is the highest amount. The tokens are whole numbers from 0. */
export function priceUsage(prices: TokenPrices, { inputTokens, outputTokens, cachedTokens }: UsedTokens): Money {
  const cached = BigInt(Math.min(cachedTokens, inputTokens))
  const sum =
    (BigInt(inputTokens) - cached) * perMillion(prices.input) +
    cached * perMillion(prices.cachedInput ?? prices.input) +
    BigInt(outputTokens) * perMillion(prices.output)
  const amount = moneyFromMicros((sum + PER - 1n) / PER)
  return amount.ok ? amount.value : maxMoney
}

/** The most that so many tokens can cost: all input is new or all is cached, whichever costs more. */
export function priceWorstCase(prices: TokenPrices, most: Pick<UsedTokens, 'inputTokens' | 'outputTokens'>): Money {
  const fresh = priceUsage(prices, { ...most, cachedTokens: 0 })
  const cached = priceUsage(prices, { ...most, cachedTokens: most.inputTokens })
  return fresh > cached ? fresh : cached
}

/** A price that cannot be read is the highest: the start of a project refuses it, and nothing is free by mistake. */
function perMillion(price: string): bigint {
  const amount = parseMoney(price)
  return amount.ok ? amount.value : maxMoney
}
