/**
 * Makes hidden characters visible, so that a person approves what the machine will read: zero width, direction, tags,
 * fillers, control characters and strange spaces become their code, wherever in a JSON value they stand.
 */
import { formatPath, isJsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'

/**
 * Line feeds and tabs are seen as what they are; of the spaces only the plain one is. A backslash that would read as one
 * of our codes is shown as a code too, so that no two texts, and no two keys, become one.
 */
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{DI}\p{Zl}\p{Zp}]|(?! )\p{Zs}|\\(?=u\{)/gu

export function showText(text: string): string {
  return text.replaceAll(HIDDEN, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)
}

export type Shown<T> = {
  readonly value: T
  /** The places where something was hidden, from the root down. */
  readonly places: readonly string[]
}

/** The value with every text and key made visible. */
export function showValue<T extends JsonValue>(value: T, root: readonly JsonStep[] = []): Shown<T> {
  const places: string[] = []
  const show = (part: JsonValue, steps: readonly JsonStep[]): JsonValue => {
    if (typeof part === 'string') return visible(part, steps)
    if (Array.isArray(part)) return part.map((each: JsonValue, index) => show(each, [...steps, index]))
    if (!isJsonObject(part)) return part
    return Object.fromEntries(
      Object.entries(part).map(([key, each]) => [visible(key, [...steps, key]), show(each, [...steps, key])]),
    )
  }
  const visible = (text: string, steps: readonly JsonStep[]): string => {
    const shown = showText(text)
    if (shown !== text) places.push(formatPath(steps))
    return shown
  }
  // Texts are replaced by texts, so the shape stays what it was.
  return { value: show(value, root) as T, places }
}
