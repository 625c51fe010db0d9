/**
 * Makes hidden characters visible, so that a person sees every character: zero width, direction, tags, fillers,
 * control characters and unusual spaces become their code.
 */

/**
 * Line feeds and tabs are visible as they are; of the spaces only the plain one is. A backslash that would read as one
 * of our codes is shown as a code too, so that two different texts never look alike.
 */
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{DI}\p{Zl}\p{Zp}]|(?! )\p{Zs}|\\(?=u\{)/gu
/** For text that must fit on one line. */
const BREAKS = /[\n\t]/g

function codeOf(char: string): string {
  return `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`
}

/** JSON notation, for text inside quotation marks. */
function jsonCodeOf(char: string): string {
  const code = char.codePointAt(0) ?? 0
  return code > 0xffff ? codeOf(char) : `\\u${code.toString(16).padStart(4, '0')}`
}

export function showText(text: string): string {
  return text.replaceAll(HIDDEN, codeOf)
}

/** The same on one line: for terminals and tables, where a line break or an escape sequence could forge output. */
export function showLine(text: string): string {
  return showText(text).replaceAll(BREAKS, codeOf)
}

/** The inside of a quotation: one line, in JSON escapes. */
export function showQuoted(text: string): string {
  return text.replaceAll(HIDDEN, jsonCodeOf).replaceAll(BREAKS, jsonCodeOf)
}

/**
 * What a name, a key or a subject cannot contain: control and format characters, private use, default ignorable, and every space but the
 * plain one. As ranges, because few clients know the properties of Unicode. The private planes 15 and 16 are left out: generators of test
 * data need minutes for a class of that size.
 */
const HIDDEN_RANGES =
  '\\u0000-\\u001f\\u007f-\\u00a0\\u00ad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u115f\\u1160\\u1680\\u17b4\\u17b5' +
  '\\u180b-\\u180f\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\u3164\\ue000-\\uf8ff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb' +
  '\\ufffe\\uffff\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}'

/** One line in which every character is visible, without a space at either end. */
export const lineForm = `^[^ ${HIDDEN_RANGES}](?:[^${HIDDEN_RANGES}]*[^ ${HIDDEN_RANGES}])?$`

const LINE = new RegExp(lineForm, 'u')

/** Counts characters, not UTF-16 units, as JSON Schema and Postgres do. */
export function isVisibleLine(text: string, charsMax: number): boolean {
  // At most two units per character: a longer text is refused without being scanned.
  return text.length <= 2 * charsMax && countChars(text) <= charsMax && text.isWellFormed() && LINE.test(text)
}

export function countChars(text: string): number {
  let count = 0
  for (const _ of text) count += 1
  return count
}
