/**
 * Makes hidden characters visible, so that a person reads what the machine reads: zero width, direction, tags, fillers,
 * control characters and strange spaces become their code.
 */

/**
 * Line feeds and tabs are seen as what they are; of the spaces only the plain one is. A backslash that would read as one
 * of our codes is shown as a code too, so that no two texts become one.
 */
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{DI}\p{Zl}\p{Zp}]|(?! )\p{Zs}|\\(?=u\{)/gu
/** For what must stand on one line. */
const BREAKS = /[\n\t]/g

function codeOf(char: string): string {
  return `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`
}

/** As JSON writes it, where the text is shown inside quotation marks. */
function jsonCodeOf(char: string): string {
  const code = char.codePointAt(0) ?? 0
  return code > 0xffff ? codeOf(char) : `\\u${code.toString(16).padStart(4, '0')}`
}

export function showText(text: string): string {
  return text.replaceAll(HIDDEN, codeOf)
}

/** The same on one line: for terminals and tables, where a line break or an escape could draw a lie. */
export function showLine(text: string): string {
  return showText(text).replaceAll(BREAKS, codeOf)
}

/** The inside of a quotation: one line, in the codes of JSON. */
export function showQuoted(text: string): string {
  return text.replaceAll(HIDDEN, jsonCodeOf).replaceAll(BREAKS, jsonCodeOf)
}
