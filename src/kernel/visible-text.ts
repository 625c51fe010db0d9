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
