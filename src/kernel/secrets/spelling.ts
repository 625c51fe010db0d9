/** Other spellings of the same text: percent-encoding, escapes, letters that look the same, invisible characters, base64 and hex. Pure. */

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
const BYTES = /(?:%[\da-f]{2})+/gi
const ESCAPE = /\\(?:u([\da-f]{4})|x([\da-f]{2}))/gi
const HAS_CODE = new RegExp(`${BYTES.source}|${ESCAPE.source}`, 'i')

/** Letters of other alphabets that look like a Latin one. */
const LOOK_ALIKES = Object.entries({
  a: 'аαɑᴀ',
  b: 'ьʙ',
  c: 'сϲᴄ',
  d: 'ԁđᴅ',
  e: 'еєεᴇ',
  g: 'ɡɢ',
  h: 'һʜ',
  i: 'іιıɪ',
  j: 'јᴊ',
  k: 'кκᴋ',
  l: 'łʟ',
  m: 'мᴍ',
  n: 'нηɴ',
  o: 'оοօøᴏ',
  p: 'рρᴘ',
  q: 'ԛ',
  r: 'гʀ',
  s: 'ѕꜱ',
  t: 'тτᴛ',
  u: 'υᴜ',
  v: 'ѵνᴠ',
  w: 'ԝωѡᴡ',
  x: 'хχ',
  y: 'уүγʏ',
  z: 'ᴢ',
  A: 'АΑ',
  B: 'ВΒ',
  C: 'СϹ',
  D: 'ԀĐ',
  E: 'ЕΕ',
  H: 'НΗ',
  I: 'ІΙ',
  J: 'Ј',
  K: 'КΚ',
  M: 'МΜ',
  N: 'Ν',
  O: 'ОΟØ',
  P: 'РΡ',
  S: 'Ѕ',
  T: 'ТΤ',
  W: 'Ԝ',
  X: 'ХΧ',
  Y: 'УΥ',
  Z: 'Ζ',
})
const latinOf = new Map(LOOK_ALIKES.flatMap(([latin, others]) => others.split('').map((other) => [other, latin])))
const LOOK_ALIKE = new RegExp(`[${[...latinOf.keys()].join('')}]`, 'g')

/** True if a part of the text may be base64 or hex. */
function mayBeEncoded(text: string): boolean {
  return text.length >= ENCODED_CHARS_MIN && HAS_ENCODED.test(text)
}

/** True if the text may have another spelling. */
export function hasOtherSpelling(text: string): boolean {
  return HAS_OTHER.test(text) || mayBeEncoded(text)
}

/** Returns the text in Latin letters where others look the same, without marks and invisible characters. */
export function plainLetters(text: string): string {
  if (!/[^ -~]/.test(text)) return text
  const plain = text.normalize('NFKD').replace(/[\p{Cf}\p{Mn}]/gu, '')
  return plain.replace(LOOK_ALIKE, (letter) => latinOf.get(letter) ?? letter)
}

/** Returns the text in plain characters, and what is written in base64 or hex in it, without those that say nothing new. */
export function spellingsOf(text: string): readonly string[] {
  const plain = HAS_OTHER.test(text) ? plainOf(text) : text
  return [...(plain === text ? [] : [plain]), ...(mayBeEncoded(plain) ? decodedOf(plain) : [])]
}

function plainOf(text: string): string {
  let decoded = text
  for (let round = 0; round < ROUNDS_MAX && HAS_CODE.test(decoded); round++)
    decoded = decoded
      .replace(BYTES, (run) => new TextDecoder().decode(Uint8Array.from(run.slice(1).split('%'), codeOf)))
      .replace(ESCAPE, (_all, wide?: string, narrow?: string) => String.fromCharCode(codeOf(wide ?? narrow ?? '')))
  return plainLetters(decoded)
}

function codeOf(hex: string): number {
  return Number.parseInt(hex, 16)
}

function* decodedOf(text: string): Generator<string> {
  for (const [run] of text.matchAll(BASE64)) {
    // A group that is not complete has no byte of its own.
    const whole = run.length % 4 === 1 ? run.slice(0, -1) : run
    const decoded = atob(whole.replaceAll('-', '+').replaceAll('_', '/'))
    if (PRINTABLE.test(decoded)) yield decoded
  }
  for (const [run] of text.matchAll(HEX)) {
    const decoded = run.replace(/../g, (pair) => String.fromCharCode(codeOf(pair)))
    if (PRINTABLE.test(decoded)) yield decoded
  }
}
