/** Makes hidden characters visible wherever in a JSON value they stand, so that a person approves what the machine will read. */
import { formatPath, isJsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { showText } from '#kernel/visible-text'

export { showText }

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
