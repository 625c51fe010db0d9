/**
 * Scans a JSON text once, in linear time, before anything is built from it: grammar, depth, number of keys, repeated and
 * forbidden keys, NUL, lone surrogates, numbers that would change. It keeps its own stack, so five million brackets
 * cost 33 steps, where JSON.parse would take 1.7 s and JSON.stringify could never write the value back.
 */
import { formatPath, isForbiddenKey, type JsonLimits, type JsonStep } from './json-value.ts'
import { quote, type Refusal, type RefusalCode, refuse } from './refusal.ts'

/** The tokens that the grammar allows at the cursor. */
type Awaiting = 'value' | 'value or ]' | 'key' | 'key or }' | 'comma or end'

/** Returns the first error in the text, or nothing: then JSON.parse accepts it and every rule holds. */
export function scanJson(text: string, limits: JsonLimits): Refusal | undefined {
  const scan = new Scan(text, limits)
  for (;;) {
    const refusal = scan.step()
    if (refusal !== 'more') return refusal
  }
}

class Scan {
  readonly #cursor: JsonCursor
  readonly #limits: JsonLimits
  #awaiting: Awaiting = 'value'
  #keyCount = 0
  /** The current position: the key or index in each open container. Its length is the depth. */
  readonly #steps: JsonStep[] = []
  /** One set of keys per level, cleared and reused. */
  readonly #keysByDepth: Set<string>[] = []

  constructor(text: string, limits: JsonLimits) {
    this.#cursor = { text, at: 0 }
    this.#limits = limits
  }

  step(): Refusal | 'more' | undefined {
    const cursor = this.#cursor
    skipSpace(cursor)
    const char = cursor.text[cursor.at]
    const inObject = typeof this.#steps.at(-1) === 'string'
    switch (this.#awaiting) {
      case 'value or ]':
        if (char === ']') return this.#close()
        return this.#value(char)
      case 'value':
        return this.#value(char)
      case 'key or }':
        if (char === '}') return this.#close()
        return this.#key(char)
      case 'key':
        return this.#key(char)
      case 'comma or end':
        if (this.#steps.length === 0) return char === undefined ? undefined : this.#syntax('the end of the text')
        if (char === (inObject ? '}' : ']')) return this.#close()
        return char === ',' ? this.#next() : this.#syntax(inObject ? '"," or "}"' : '"," or "]"')
    }
  }

  #value(char: string | undefined): Refusal | 'more' {
    const cursor = this.#cursor
    if (char === '{') return this.#open('')
    if (char === '[') return this.#open(0)
    if (char === '"') {
      const problem = readString(cursor)
      if (problem) return this.#stringProblem(problem)
    } else if (char !== undefined && '-0123456789'.includes(char)) {
      const start = cursor.at
      const problem = readNumber(cursor)
      if (problem) return this.#syntax(problem.expected)
      if (!isFaithfulNumber(cursor.text.slice(start, cursor.at))) {
        return this.#refuse('number_out_of_range', 'The number would lose digits. Send it as a string.')
      }
    } else if (!readWord(cursor)) return this.#syntax('a value')
    this.#awaiting = 'comma or end'
    return 'more'
  }

  #open(first: JsonStep): Refusal | 'more' {
    if (this.#steps.length >= this.#limits.depthMax) {
      return this.#refuse('json_too_deep', `The nesting is deeper than the limit of ${this.#limits.depthMax} levels.`)
    }
    this.#cursor.at += 1
    this.#awaiting = first === '' ? 'key or }' : 'value or ]'
    if (first === '') {
      const keys = this.#keysByDepth[this.#steps.length]
      if (keys) keys.clear()
      else this.#keysByDepth[this.#steps.length] = new Set()
    }
    this.#steps.push(first)
    return 'more'
  }

  #close(): 'more' {
    this.#cursor.at += 1
    this.#steps.pop()
    this.#awaiting = 'comma or end'
    return 'more'
  }

  #next(): 'more' {
    this.#cursor.at += 1
    const step = this.#steps.pop()
    this.#steps.push(typeof step === 'number' ? step + 1 : '')
    this.#awaiting = typeof step === 'number' ? 'value' : 'key'
    return 'more'
  }

  #key(char: string | undefined): Refusal | 'more' {
    const cursor = this.#cursor
    if (char !== '"') return this.#syntax('a key in double quotes')
    const start = cursor.at
    this.#steps.pop()
    const problem = readString(cursor)
    if (problem) return this.#stringProblem(problem)
    const raw = cursor.text.slice(start, cursor.at)
    // Decoded, because "\u005f_proto__" and "__proto__" are the same key to every reader of the value.
    const key = raw.includes('\\') ? String(JSON.parse(raw)) : raw.slice(1, -1)
    const keys = this.#keysByDepth[this.#steps.length]
    this.#steps.push(key)
    this.#keyCount += 1
    if (this.#keyCount > this.#limits.keysMax) {
      return this.#refuse('json_too_many_keys', `There are more than ${this.#limits.keysMax} keys.`)
    }
    if (isForbiddenKey(key)) return this.#refuse('key_forbidden', `The key ${quote(key)} is not allowed.`)
    if (keys?.has(key)) return this.#refuse('json_duplicate_key', `The key ${quote(key)} occurs twice.`)
    keys?.add(key)
    skipSpace(cursor)
    if (cursor.text[cursor.at] !== ':') return this.#syntax('":"')
    cursor.at += 1
    this.#awaiting = 'value'
    return 'more'
  }

  #stringProblem(problem: Exclude<ReturnType<typeof readString>, undefined>): Refusal {
    if (typeof problem === 'object') return this.#syntax(problem.expected)
    return problem === 'nul_character'
      ? this.#refuse(problem, 'A string contains the character NUL, which Postgres cannot store.')
      : this.#refuse(problem, 'A string contains half of a surrogate pair.')
  }

  #syntax(expected: string): Refusal {
    const { text, at } = this.#cursor
    const { line, column } = placeOf(text, at)
    const found = at < text.length ? quote(String.fromCodePoint(text.codePointAt(at) ?? 0)) : 'the end of the text'
    return refuse('json_syntax', `Line ${line}, column ${column}: expected ${expected}, found ${found}.`, {
      facts: { line, column },
    })
  }

  #refuse(code: RefusalCode, reason: string): Refusal {
    const path = formatPath(this.#steps)
    return refuse(code, reason, path === '' ? {} : { path })
  }
}

/** Returns line and column as an editor counts them: from 1, in characters. Computed only for an error. */
function placeOf(text: string, at: number): { line: number; column: number } {
  let line = 1
  let column = 1
  for (const char of text.slice(0, at)) {
    column += 1
    if (char === '\n') {
      line += 1
      column = 1
    }
  }
  return { line, column }
}

// Tokens: each function reads character by character and returns the problem, or nothing.

/** The read position; after a problem `at` is the offending character. */
type JsonCursor = { readonly text: string; at: number }

type StringProblem = 'nul_character' | 'invalid_unicode' | { readonly expected: string }

const QUOTE = 0x22
const BACKSLASH = 0x5c
const WORDS = ['true', 'false', 'null'] as const
const SIMPLE_ESCAPES = '"\\/bfnrt'

const CONTROL = { expected: 'no raw control character in a string' }
const ESCAPE = { expected: 'one of the escapes \\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u and four hex digits' }
const CLOSING = { expected: 'a closing "' }

/** Starts at the opening quote, ends after the closing one. Pairs surrogates as they are after decoding. */
function readString(cursor: JsonCursor): StringProblem | undefined {
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
function readNumber(cursor: JsonCursor): { readonly expected: string } | undefined {
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
function readWord(cursor: JsonCursor): boolean {
  const word = WORDS.find((name) => cursor.text.startsWith(name, cursor.at))
  cursor.at += word?.length ?? 0
  return word !== undefined
}

function skipSpace(cursor: JsonCursor): void {
  for (;;) {
    const code = cursor.text.charCodeAt(cursor.at)
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
    cursor.at += 1
  }
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** A literal this short, without exponent, loses nothing. */
const SAFE_LENGTH = 15

/**
 * Decides which JSON numbers survive a round trip through a double. Up to 2^53 - 1 every integer does. A fraction of up to 17 digits, which
 * is what programs write for a double, is rounded to the nearest one; one with more digits is refused. Above that the digits must come back as they were sent: 6.02214076e23 does,
 * 9007199254740993 would change by one, 1e400 would become null and 1e-400 would become 0. Expects a literal that follows
 * the JSON grammar.
 */
export function isFaithfulNumber(literal: string): boolean {
  const exponentAt = literal.search(/[eE]/)
  if (exponentAt === -1 && literal.length <= SAFE_LENGTH) return true
  const value = Number(literal)
  if (!Number.isFinite(value)) return false
  const mantissa = exponentAt === -1 ? literal : literal.slice(0, exponentAt)
  if (value === 0) return !/[1-9]/.test(mantissa)
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return digitsOf(mantissa) <= DOUBLE_DIGITS
  return decimalOf(literal) === decimalOf(String(value))
}

/** No double needs more significant digits. */
const DOUBLE_DIGITS = 17

function digitsOf(mantissa: string): number {
  return trimZeros(mantissa.replaceAll(/[-.]/g, '')).text.length
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
