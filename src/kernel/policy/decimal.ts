/** Compares numbers and decimal texts exactly: amounts are sent as text, and `0.1 + 0.2` must not decide about money. */

/** Up to 40 digits on each side: more is not an amount, and a text of a million digits must not become a bigint. */
const FORM = /^-?\d{1,40}(?:\.\d{1,40})?$/

export function isDecimal(value: unknown): value is number | string {
  return typeof value === 'number' ? Number.isFinite(value) : typeof value === 'string' && FORM.test(value)
}

/** Negative, zero or positive, as in sorting. */
export function compareDecimals(left: number | string, right: number | string): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right
  const [a, b] = [String(left), String(right)]
  // Numbers such as 1e300 have no plain form; at that size a float is exact enough to compare.
  if (!FORM.test(a) || !FORM.test(b)) return Number(a) - Number(b)
  const decimals = Math.max(countDecimals(a), countDecimals(b))
  const difference = scale(a, decimals) - scale(b, decimals)
  return difference > 0n ? 1 : difference < 0n ? -1 : 0
}

function countDecimals(text: string): number {
  return text.split('.')[1]?.length ?? 0
}

function scale(text: string, decimals: number): bigint {
  const [whole = '', fraction = ''] = text.split('.')
  return BigInt(whole + fraction.padEnd(decimals, '0'))
}
