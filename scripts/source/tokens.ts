/**
 * Splits TypeScript into words, strings and punctuation, well enough to find imports and calls. It drops comments, keeps strings
 * whole, enters templates at `${`, and tells a regular expression from a division.
 */
export type Token = {
  readonly kind: 'word' | 'number' | 'string' | 'template' | 'regex' | 'mark'
  /** The text of a string between its quotes, as written. */
  readonly text: string
  readonly start: number
  readonly end: number
}

const wordsBeforeRegex = new Set(
  'return typeof instanceof in of new delete void throw case do else yield await default extends'.split(' '),
)
const blank = /\s/
const wordStart = /[\p{ID_Start}$_]/u
const wordPart = /[\p{ID_Continue}$\u200c\u200d]/u
const digit = /[0-9]/

export function tokenize(source: string): Token[] {
  const tokens: Token[] = []
  /** One entry per open template: the number of open braces in its current `${`. */
  const templates: number[] = []
  let at = source.startsWith('#!') ? endOfLine(source, 0) : 0

  const push = (kind: Token['kind'], start: number, reached: number, trim = 0): void => {
    const end = Math.min(reached, source.length)
    tokens.push({ kind, text: source.slice(start + trim, end - trim), start, end })
    at = end
  }
  const pushTemplate = (start: number): void => {
    let end = start + 1
    while (end < source.length && source[end] !== '`' && !source.startsWith('${', end))
      end += source[end] === '\\' ? 2 : 1
    const closes = source[end] === '`'
    const whole = closes && source[start] === '`'
    if (whole) return push('string', start, end + 1, 1)
    push('template', start, closes ? end + 1 : end + 2)
    if (!closes) templates.push(0)
  }

  while (at < source.length) {
    const char = source[at] ?? ''
    if (blank.test(char)) at++
    else if (source.startsWith('//', at)) at = endOfLine(source, at)
    else if (source.startsWith('/*', at)) at = after(source, '*/', at + 2)
    else if (char === "'" || char === '"') push('string', at, endOfString(source, at), 1)
    else if (char === '`') pushTemplate(at)
    else if (char === '}' && templates.at(-1) === 0) {
      templates.pop()
      pushTemplate(at)
    } else if (char === '/' && regexMayFollow(tokens.at(-1))) push('regex', at, endOfRegex(source, at))
    else if (wordStart.test(char)) push('word', at, endWhile(source, at, wordPart))
    else if (digit.test(char)) push('number', at, endWhile(source, at, /[\w.]/))
    else {
      const open = templates.length - 1
      if (open >= 0 && (char === '{' || char === '}'))
        templates[open] = (templates[open] ?? 0) + (char === '{' ? 1 : -1)
      push('mark', at, at + 1)
    }
  }
  return tokens
}

function endOfLine(source: string, from: number): number {
  const end = source.indexOf('\n', from)
  return end === -1 ? source.length : end
}

function after(source: string, close: string, from: number): number {
  const end = source.indexOf(close, from)
  return end === -1 ? source.length : end + close.length
}

function endOfString(source: string, start: number): number {
  let end = start + 1
  while (end < source.length && source[end] !== source[start] && source[end] !== '\n')
    end += source[end] === '\\' ? 2 : 1
  return Math.min(end + 1, source.length)
}

function endOfRegex(source: string, start: number): number {
  let end = start + 1
  let inClass = false
  for (; end < source.length && source[end] !== '\n'; end++) {
    if (source[end] === '\\') end++
    else if (source[end] === '[') inClass = true
    else if (source[end] === ']') inClass = false
    else if (source[end] === '/' && !inClass) break
  }
  return endWhile(source, Math.min(end + 1, source.length), /[a-z]/)
}

function endWhile(source: string, from: number, part: RegExp): number {
  let end = from
  while (end < source.length && part.test(source[end] ?? '')) end++
  return end
}

/** After a value a slash divides; anywhere else it opens a regular expression. */
function regexMayFollow(before: Token | undefined): boolean {
  if (!before) return true
  if (before.kind === 'mark') return !')]}'.includes(before.text)
  if (before.kind === 'template') return before.text.endsWith('${')
  return before.kind === 'word' && wordsBeforeRegex.has(before.text)
}
