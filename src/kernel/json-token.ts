/** Reads strings, numbers and words of JSON character by character; each function returns the problem, or nothing. */

/** The read position; after a problem `at` is the offending character. */
export type JsonCursor = { readonly text: string; at: number }

export type StringProblem = 'nul_character' | 'invalid_unicode' | { readonly expected: string }

const QUOTE = 0x22
const BACKSLASH = 0x5c
const WORDS = ['true', 'false', 'null'] as const
const SIMPLE_ESCAPES = '"\\/bfnrt'

const CONTROL = { expected: 'no raw control character in a string' }
const ESCAPE = { expected: 'one of the escapes \\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u and four hex digits' }
const CLOSING = { expected: 'a closing "' }

/** Starts at the opening quote, ends after the closing one. Pairs surrogates as they are after decoding. */
export function readString(cursor: JsonCursor): StringProblem | undefined {
  const { text } = cursor
  let openHigh = false
  cursor.at += 1
  for (;;) {
    if (cursor.at >= text.length) return CLOSING
    let unit = text.charCodeAt(cursor.at)
    if (unit === QUOTE) break
    if (unit < 0x20) return CONTROL
    let width = 1
    if (unit === BACKSLASH) {
      if (text[cursor.at + 1] === 'u') {
        unit = hexUnit(text, cursor.at + 2)
        if (unit === -1) return ESCAPE
        if (unit === 0) return 'nul_character'
        width = 6
      } else {
        const letter = text[cursor.at + 1]
        if (letter === undefined || !SIMPLE_ESCAPES.includes(letter)) return ESCAPE
        width = 2
      }
    }
    const isLow = (unit & 0xfc00) === 0xdc00
    if (isLow !== openHigh) return 'invalid_unicode'
    openHigh = (unit & 0xfc00) === 0xd800
    cursor.at += width
  }
  if (openHigh) return 'invalid_unicode'
  cursor.at += 1
  return undefined
}

/** Returns the value of four hex digits, or -1. */
function hexUnit(text: string, at: number): number {
  let unit = 0
  for (let i = at; i < at + 4; i++) {
    const code = text.charCodeAt(i)
    const digit = isDigit(code)
      ? code - 0x30
      : (code | 0x20) >= 0x61 && (code | 0x20) <= 0x66
        ? (code | 0x20) - 0x57
        : -1
    if (digit === -1) return -1
    unit = unit * 16 + digit
  }
  return unit
}

/** Ends after the number; the only possible problem is a missing digit. */
export function readNumber(cursor: JsonCursor): { readonly expected: string } | undefined {
  const { text } = cursor
  if (text[cursor.at] === '-') cursor.at += 1
  if (text[cursor.at] === '0') cursor.at += 1
  else if (!skipDigits(cursor)) return DIGIT
  if (text[cursor.at] === '.') {
    cursor.at += 1
    if (!skipDigits(cursor)) return DIGIT
  }
  if (text[cursor.at] === 'e' || text[cursor.at] === 'E') {
    cursor.at += 1
    if (text[cursor.at] === '+' || text[cursor.at] === '-') cursor.at += 1
    if (!skipDigits(cursor)) return DIGIT
  }
  return undefined
}

const DIGIT = { expected: 'a digit' }

function skipDigits(cursor: JsonCursor): boolean {
  const start = cursor.at
  while (isDigit(cursor.text.charCodeAt(cursor.at))) cursor.at += 1
  return cursor.at > start
}

/** Returns true after `true`, `false` or `null`; otherwise the cursor has not moved. */
export function readWord(cursor: JsonCursor): boolean {
  const word = WORDS.find((name) => cursor.text.startsWith(name, cursor.at))
  cursor.at += word?.length ?? 0
  return word !== undefined
}

export function skipSpace(cursor: JsonCursor): void {
  for (;;) {
    const code = cursor.text.charCodeAt(cursor.at)
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
    cursor.at += 1
  }
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}
