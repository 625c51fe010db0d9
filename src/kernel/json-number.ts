/**
 * Decides which JSON numbers survive a round trip through a double. Up to 2^53 - 1 every integer does, and a fraction is rounded
 * to the nearest double as usual. Above that the digits must come back as they were sent: 6.02214076e23 does,
 * 9007199254740993 would change by one, 1e400 would become null and 1e-400 would become 0.
 */

/** A literal this short, without exponent, loses nothing. */
const SAFE_LENGTH = 15

/** Expects a literal that follows the JSON grammar. */
export function isFaithfulNumber(literal: string): boolean {
  const exponentAt = literal.search(/[eE]/)
  if (exponentAt === -1 && literal.length <= SAFE_LENGTH) return true
  const value = Number(literal)
  if (!Number.isFinite(value)) return false
  const mantissa = exponentAt === -1 ? literal : literal.slice(0, exponentAt)
  if (value === 0) return !/[1-9]/.test(mantissa)
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER || decimalOf(literal) === decimalOf(String(value))
}

/** Returns one text per decimal value: its significant digits and the power of ten of the last one, without the sign. */
function decimalOf(literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().replace('-', '').split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const digits = trimZeros(whole + fraction)
  return `${digits.text}e${Number(exponent) - fraction.length + digits.droppedAtEnd}`
}

/** A loop, because /0+$/ takes quadratic time on a million zeros that are followed by another digit. */
function trimZeros(digits: string): { text: string; droppedAtEnd: number } {
  let start = 0
  while (digits[start] === '0') start += 1
  let end = digits.length
  while (end > start && digits[end - 1] === '0') end -= 1
  return { text: digits.slice(start, end), droppedAtEnd: digits.length - end }
}
