/** Other spellings of the same text: percent-encoding, escapes, full-width letters, invisible characters, base64 and hex. Pure. */

/** Most texts are ASCII without escapes: they have no other spelling. */
const HAS_OTHER = /[%\u0080-\uffff]|\\[ux]/
/**
 * ASCII text in base64: each group of four begins with one of these letters. A word of a sentence has no four such groups, and a hash has them
 * once in a thousand times.
 */
const BASE64 = /(?<![\w+/-])(?:[CI-Za-f][\w+/-]{3}){4,}[\w+/-]{0,3}/g
const HEX = /(?<!\w)(?:[2-7][\da-fA-F]){8,}(?!\w)/g
/** One look, since most texts have neither: `matchAll` copies its expression at every call. */
const HAS_ENCODED = new RegExp(`${BASE64.source}|${HEX.source}`)
const ENCODED_CHARS_MIN = 16
const PRINTABLE = /^[\t\n\r -~]+$/
/** Encoded twice: `%253D`. */
const ROUNDS_MAX = 3

/** True if a part of the text may be base64 or hex. */
export function mayBeEncoded(text: string): boolean {
  return text.length >= ENCODED_CHARS_MIN && HAS_ENCODED.test(text)
}

/** Returns the text in plain characters, and what is written in base64 or hex in it, without those that say nothing new. */
export function spellingsOf(text: string): readonly string[] {
  const plain = HAS_OTHER.test(text) ? plainOf(text) : text
  return [...(plain === text ? [] : [plain]), ...(mayBeEncoded(plain) ? decodedOf(plain) : [])]
}

function plainOf(text: string): string {
  let decoded = text
  for (let round = 0; round < ROUNDS_MAX && /%[0-7][\da-f]|\\u00|\\x/i.test(decoded); round++)
    decoded = decoded.replace(/(?:%|\\u00|\\x)([0-7][\da-f])/gi, (_all, hex: string) =>
      String.fromCodePoint(Number.parseInt(hex, 16)),
    )
  return decoded.normalize('NFKD').replace(/[\p{Cf}\p{Mn}]/gu, '')
}

function* decodedOf(text: string): Generator<string> {
  for (const [run] of text.matchAll(BASE64)) {
    // A group that is not complete has no byte of its own.
    const whole = run.length % 4 === 1 ? run.slice(0, -1) : run
    const decoded = atob(whole.replaceAll('-', '+').replaceAll('_', '/'))
    if (PRINTABLE.test(decoded)) yield decoded
  }
  for (const [run] of text.matchAll(HEX)) {
    const decoded = run.replace(/../g, (pair) => String.fromCodePoint(Number.parseInt(pair, 16)))
    if (PRINTABLE.test(decoded)) yield decoded
  }
}
