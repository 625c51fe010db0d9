/**
 * An amount is a whole number of millionths, from 0 to 999,999,999.999999, and never a float. The database has the same
 * range for its costs and limits, and a JavaScript number holds 15 digits exactly.
 * NaN or infinity would disable a budget, since Postgres sorts both above every limit; they cannot be constructed.
 */
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'

declare const moneyBrand: unique symbol
/** Comparable with `<` and `===`; only the functions of this file create one. */
export type Money = bigint & { readonly [moneyBrand]: true }

const MICROS_PER_UNIT = 1_000_000n
const MAX_MICROS = 999_999_999_999_999n

// The brand exists for the compiler only; both numbers are inside the range.
export const zeroMoney = 0n as Money
export const maxMoney = MAX_MICROS as Money

const FORM = /^(-?)(0|[1-9]\d*)(?:\.(\d{1,6}))?$/

/** Parses a plain decimal such as `12.5` or `0.003000`: no sign, no exponent, at most six decimals. */
export function parseMoney(text: string): Decision<Money> {
  const [, minus, whole = '', decimals = ''] = FORM.exec(text) ?? []
  if (minus === undefined) return badFormat(quote(text))
  // Longer than any legal amount: refused before a bigint of a million digits is built.
  if (minus === '-' || whole.length > 9) return outOfRange(quote(text))
  return moneyFromMicros(BigInt(whole) * MICROS_PER_UNIT + BigInt(decimals.padEnd(6, '0')))
}

/** Accepts a JavaScript number only if its shortest decimal form has at most six decimals: 0.1 + 0.2 is refused. */
export function moneyFromNumber(amount: number): Decision<Money> {
  if (!Number.isFinite(amount)) return badFormat(String(amount))
  if (amount < 0 || amount >= 1_000_000_000) return outOfRange(String(amount))
  return parseMoney(String(amount))
}

export function moneyFromMicros(micros: bigint): Decision<Money> {
  // The only place that assigns the brand: the range has just been checked.
  return micros >= 0n && micros <= MAX_MICROS ? accept(micros as Money) : outOfRange(`${micros} millionths`)
}

/** Formats for the database and the wire, always with six decimals: `3.000000`. */
export function formatMoney(amount: Money): string {
  const decimals = String(amount % MICROS_PER_UNIT).padStart(6, '0')
  return `${amount / MICROS_PER_UNIT}.${decimals}`
}

export function addMoney(left: Money, right: Money): Decision<Money> {
  return moneyFromMicros(left + right)
}

/** Subtracts; refuses when `right` is larger, since an amount is never negative. */
export function subtractMoney(left: Money, right: Money): Decision<Money> {
  return moneyFromMicros(left - right)
}

export function sumMoney(amounts: Iterable<Money>): Decision<Money> {
  let micros = 0n
  for (const amount of amounts) micros += amount
  return moneyFromMicros(micros)
}

/** For sorting: negative, zero or positive as in `Array.prototype.sort`. */
export function compareMoney(left: Money, right: Money): -1 | 0 | 1 {
  return left < right ? -1 : left > right ? 1 : 0
}

function badFormat(shown: string): Refusal {
  return refuse('money.format', `${shown} is not an amount of money.`, {
    hint: 'Send a decimal with at most six decimals and no exponent, such as "12.50".',
  })
}

function outOfRange(shown: string): Refusal {
  return refuse('money.range', `${shown} is outside 0 to 999999999.999999.`, {
    facts: { min: formatMoney(zeroMoney), max: formatMoney(maxMoney) },
  })
}
